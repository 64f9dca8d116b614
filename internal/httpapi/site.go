package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// errCrossSite answers a change that a web page of another site sent: the browser would
// send it, with the credentials that it knows, whoever made the page.
var errCrossSite = dbaas.Errorf(dbaas.CodeForbidden,
	"a web page of another site may not send changes here: serve the page from this address, or send the request from a server")

// safe reports whether a method changes nothing (RFC 9110). A browser lets no other site read the answer.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// checkSite refuses a change that a browser says comes from a page of another site. Every
// browser sends Sec-Fetch-Site to https and to loopback addresses, and pages cannot set it; other clients send none.
func checkSite(r *http.Request) error {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if safe(r.Method) {
		return nil
	}
	return errCrossSite
}

// checkOrigin refuses a change whose Origin is another host. It is what browsers send where they send no Sec-Fetch-Site.
func checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || safe(r.Method) || r.Header.Get("Sec-Fetch-Site") != "" {
		return nil // a Sec-Fetch-Site was looked at before, and knows more
	}
	if u, err := url.Parse(origin); err == nil && u.Host == r.Host && u.Host != "" {
		return nil
	}
	return errCrossSite
}

// hostRule says which Host a listener answers: on a loopback address and where names are set, only addresses and those. A page of any site can
// have its own name resolve to 127.0.0.1 (DNS rebinding), and is then of the same site for the browser: only
// the name in Host gives it away. Browsers have no way to do that to an address.
type hostRule struct {
	loopback bool
	allowed  []string // names besides localhost
}

func (h hostRule) check(r *http.Request) error {
	if !h.loopback && len(h.allowed) == 0 || r.Host == "" {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || strings.EqualFold(host, "localhost") {
		return nil
	}
	if slices.ContainsFunc(h.allowed, func(name string) bool { return strings.EqualFold(name, host) }) {
		return nil
	}
	return dbaas.Errorf(dbaas.CodeForbidden,
		"the host %.100q is not known here: call this address by its number or as localhost, or name the host in ALLOWED_HOSTS", host)
}

// onLoopback reports whether only this machine reaches a listener of that address.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// sameSite answers what a web page of another site sent with 403, and lets everything else through to next.
func (s *Server) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.hosts.check(r)
		if err == nil {
			err = checkSite(r)
		}
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		id := RequestIDFrom(r.Header)
		w.Header().Set(HeaderRequestID, id)
		s.cfg.Log.DebugContext(r.Context(), "request of another site refused", logkey.RequestID, id, logkey.Error, err.Error())
		writeError(w, r.WithContext(WithRequestID(r.Context(), id)), false, err)
	})
}
