package main

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"rideshare/internal/httpapi"
)

// internalAPI is the setting of the parts that only other parts call: launcher, persdb and worker.
type internalAPI struct {
	PrivateNetwork bool `name:"private-network" env:"PRIVATE_NETWORK" help:"Only parts of this system reach the listen address, as on a network between containers. Without it a part of a cluster (its bus, coordinator or log names several hosts) listens beyond this machine only with --tls-ca; a launcher also with --tls-cert and a token."`
}

// checkListen returns an error if a part of a cluster would serve plain HTTP, or callers without credentials, at an address
// that other machines reach. setting is the address's flag; urls are the URLs of bus, coordinator and log. A part of a system
// on one host only logs a warning.
func (i internalAPI) checkListen(out *output, setting, listen, token string, urls ...string) error {
	if i.PrivateNetwork || out.tls.Verifies() || (token != "" && out.tls.Serves()) || onThisMachine(listen) || !slices.ContainsFunc(urls, namesSeveralHosts) {
		return nil
	}
	return usagef("%s: other machines reach %s, and this part would trust every caller or read its token in plain HTTP: "+
		"set --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1, or set --private-network if only parts of this system reach the address", setting, listen)
}

// exposed returns warning, or "" if the part verifies its callers' certificates or the network is private.
func (i internalAPI) exposed(out *output, warning string) string {
	if i.PrivateNetwork {
		return ""
	}
	return out.unlessVerified(warning)
}

// onThisMachine reports whether only this machine reaches a listen address. A name other than localhost counts as reachable.
func onThisMachine(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if strings.HasPrefix(listen, httpapi.UnixScheme) || err != nil || host == "localhost" {
		return true // a wrong address has an error of its own
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// namesSeveralHosts reports whether a URL, or a list of URLs, names more than one host. Ports do not count.
func namesSeveralHosts(list string) bool {
	var hosts []string
	rests := strings.Split(list, "://")[1:]
	for i, rest := range rests {
		if comma := strings.LastIndex(rest, ","); i < len(rests)-1 && comma >= 0 {
			rest = rest[:comma] // without the scheme of the next URL
		}
		rest, _, _ = strings.Cut(rest, "/")
		rest = rest[strings.LastIndex(rest, "@")+1:]
		for host := range strings.SplitSeq(rest, ",") {
			if name, _, err := net.SplitHostPort(host); err == nil {
				host = name
			}
			if !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return len(hosts) > 1
}
