package main

import (
	"net/http"
	"net/url"
	"strings"

	"rideshare/internal/instances"
)

// orSeveral is in the help of every address that may be a list.
const orSeveral = "or several, separated by commas: the first that answers is used"

// caller sends requests.
type caller interface {
	http.RoundTripper
	CloseIdleConnections()
}

// checkURLs rejects anything but a base URL, or several with commas in between.
func checkURLs(flag, list string) error {
	if _, err := instances.Parse(strings.Split(list, ",")); err != nil {
		return usagef("%s: %v", flag, err)
	}
	return nil
}

// elements returns the elements of lists with commas in between, empty ones too: kong drops the last one if it is empty.
func elements(lists []string) []string { return strings.Split(strings.Join(lists, ","), ",") }

// reachAPI returns the base URL of an orchestrator and a transport to it, or to the first of several that answers. limit sets the
// transport's time limits. It refuses credentials in the URL.
func reachAPI(out *output, address string, limit func(*http.Transport)) (base string, to caller, err error) {
	several := strings.Split(address, ",")
	for _, one := range several {
		if u, bad := url.Parse(one); strings.Contains(one, "@") && (bad != nil || u.User != nil) {
			return "", nil, usagef("credentials do not belong in a URL, where others see them: use --auth-file, or --user and $%s", envPassword)
		}
	}
	if len(several) == 1 {
		single, transport, wrong := out.reach(address)
		if wrong != nil {
			return "", nil, usagef("%v", wrong)
		}
		limit(transport)
		return single, transport, nil
	}
	transport := &http.Transport{DisableCompression: true}
	limit(transport)
	pool, err := instances.New(instances.Config{URLs: several, Transport: transport, TLS: out.tls})
	if err != nil {
		return "", nil, usagef("%v", err)
	}
	return pool.Base(), pool, nil
}

// unlimited sets no time limits: the request's context has one.
func unlimited(*http.Transport) {}
