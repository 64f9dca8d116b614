package amqp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// node is one address of the broker. More than one address is a cluster.
type node struct {
	url     string
	address string // for the log: with the user and the vhost, without the password
	host    string // its name, with the port if the name needs it
	// suffix follows the names of the read queues at this node; "" unless it is in a cluster.
	suffix string
}

// parseNodes reads amqp://user:password@host:port,host:port/vhost. Its errors show neither the URL nor the library's
// error: both contain the password.
func parseNodes(text string) ([]node, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest+"/", "/?#")
	user, path := "", rest[end:]
	hosts := rest[:end]
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}
	list := strings.Split(hosts, ",")
	nodes, at := make([]node, len(list)), make([]amqp091.URI, len(list))
	names, addresses := map[string]int{}, map[string]bool{}
	for i, host := range list {
		if host == "" && len(list) > 1 {
			return nil, fmt.Errorf("the URL has %d addresses, and address %d is empty", len(list), i+1)
		}
		nodes[i].url = scheme + "://" + user + host + path
		var err error
		if at[i], err = amqp091.ParseURI(nodes[i].url); err != nil {
			return nil, errors.New("the URL is not like amqp://user:password@host:port/vhost, or host:port,host:port,host:port for a cluster")
		}
		at[i].Host = strings.ToLower(at[i].Host)
		address := net.JoinHostPort(at[i].Host, strconv.Itoa(at[i].Port))
		if addresses[address] {
			return nil, fmt.Errorf("the URL has the address %s twice", address)
		}
		addresses[address] = true
		names[at[i].Host]++
	}
	for i := range nodes {
		nodes[i].address = addressOf(at[i])
		nodes[i].host = at[i].Host
		if names[at[i].Host] > 1 || at[i].Port != defaultPort(at[i].Scheme) {
			nodes[i].host = net.JoinHostPort(at[i].Host, strconv.Itoa(at[i].Port))
		}
		if len(nodes) > 1 {
			nodes[i].suffix = "." + nodes[i].host
		}
	}
	return nodes, nil
}

// defaultPort returns the port of an address without one.
func defaultPort(scheme string) int {
	at, _ := amqp091.ParseURI(scheme + "://host") // the scheme has been checked.
	return at.Port
}

// addressOf returns an address with the user and the vhost, without the password.
func addressOf(at amqp091.URI) string {
	u := url.URL{Scheme: at.Scheme, User: url.User(at.Username), Host: net.JoinHostPort(at.Host, strconv.Itoa(at.Port))}
	return u.String() + "/" + url.PathEscape(strings.TrimPrefix(at.Vhost, "/"))
}

// shuffled returns the nodes in the order to try them: the first stays, the others are in random order, so that the
// clients of a lost node spread over the others.
func shuffled(nodes []node) []node {
	lots := make(map[node]string, len(nodes))
	for _, n := range nodes[1:] {
		lots[n] = rand.Text()
	}
	slices.SortFunc(nodes[1:], func(a, b node) int { return strings.Compare(lots[a], lots[b]) })
	return nodes
}
