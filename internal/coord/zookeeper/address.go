package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// defaultPort is ZooKeeper's port, for addresses without one.
const defaultPort = "2181"

// address says where the data is: the servers, and the node under which everything is kept.
type address struct {
	servers []string // host:port, not resolved
	root    string   // "" or /a/b
}

// parse reads zk://host:port,host:port/chroot.
func parse(text string) (address, error) {
	rest, ok := strings.CutPrefix(text, "zk://")
	if !ok {
		return address{}, errors.New("the URL of a ZooKeeper begins with zk://")
	}
	hosts, root, _ := strings.Cut(rest, "/")
	var a address
	for host := range strings.SplitSeq(hosts, ",") {
		// Each host is checked as the host of a separate URL.
		u, err := url.Parse("zk://" + host)
		if err != nil {
			return address{}, fmt.Errorf("server %q: %w", host, err)
		}
		if u.Hostname() == "" || u.Host != host {
			return address{}, fmt.Errorf("server %q is not host:port", host)
		}
		port := u.Port()
		port = cmp.Or(port, defaultPort)
		a.servers = append(a.servers, net.JoinHostPort(u.Hostname(), port))
	}
	if strings.ContainsAny(root, "?#") {
		return address{}, errors.New("the URL of a ZooKeeper ends with the path of a node")
	}
	if root = path.Clean("/" + root); root != "/" {
		a.root = root
	}
	return a, nil
}
