// Package instances sends HTTP requests to one of several instances of a service, such as the orchestrators of a cluster.
// DESIGN.md says which instance gets a request, and when another one does.
package instances

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Parse reads the base URLs of the instances of one service. The error says which element is wrong. Several URLs must differ, and
// have one scheme and nothing after the host.
func Parse(addresses []string) ([]*url.URL, error) {
	if len(addresses) == 0 {
		return nil, errors.New("there is no address")
	}
	urls := make([]*url.URL, 0, len(addresses))
	seen := map[string]bool{}
	for _, address := range addresses {
		address = strings.TrimSpace(address)
		if address == "" && len(addresses) > 1 {
			return nil, fmt.Errorf("an address of %q is empty", strings.Join(addresses, ","))
		}
		u, err := url.Parse(strings.TrimSuffix(address, "/"))
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("%q is not http://host:port", address)
		}
		urls = append(urls, u)
		if len(addresses) == 1 {
			break
		}
		host := strings.ToLower(u.Host)
		switch {
		case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil:
			return nil, fmt.Errorf("%q is not http://host:port: nothing may stand beside the host of one of several addresses", u.Redacted())
		case u.Scheme != urls[0].Scheme:
			return nil, fmt.Errorf("%q and %q: either all addresses are http, or all are https", urls[0], u)
		case seen[host]:
			return nil, fmt.Errorf("%q is there twice", u)
		}
		seen[host] = true
	}
	return urls, nil
}
