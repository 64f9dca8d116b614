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

// errCrossSite answers a change sent by a web page of another site. A browser sends such a request with the credentials
// it has stored, whichever site the page comes from.
var errCrossSite = dbaas.Errorf(dbaas.CodeForbidden,
	"a web page of another site may not send changes here: serve the page from this address, or send the request from a server")

// safe reports whether a method changes nothing (RFC 9110). A browser does not let other sites read the answer.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// checkSite refuses a change if the browser reports that it comes from a page of another site. Every browser sends
// Sec-Fetch-Site to https and to loopback addresses, and pages cannot set it; other clients do not send it.
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

// checkOrigin refuses a change whose Origin is another host. Browsers send Origin even where they send no
// Sec-Fetch-Site.
func checkOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "" || safe(r.Method) || r.Header.Get("Sec-Fetch-Site") != "" {
		return nil // a Sec-Fetch-Site header has already been checked, and is more reliable
	}
	if ownOrigin(r) {
		return nil
	}
	return errCrossSite
}

// ownOrigin reports whether the Origin is the host that the request calls.
func ownOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host == r.Host && u.Host != ""
}

// DropOwnOrigin removes the Origin from out, which passes the change in on to another host, if it is the host that in
// calls: only there can it be compared.
func DropOwnOrigin(in, out *http.Request) {
	if !safe(in.Method) && ownOrigin(in) {
		out.Header.Del("Origin")
	}
}

// hostRule decides which Host headers a listener accepts. On a loopback address, or if names are configured, it
// accepts only IP addresses, localhost and those names. A page of any site can have its own name resolve to 127.0.0.1 (DNS
// rebinding); for the browser, page and server are then the same site, and only the name in Host reveals the attack.
// It is not possible with an IP address in Host.
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

// onLoopback reports whether a listener at addr can be reached only from this machine.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// sameSite answers requests of other sites' web pages with 403, and passes all others to next.
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
		id := RequestIDFrom(r.Context(), r.Header)
		w.Header().Set(HeaderRequestID, id)
		if s.cfg.AddHeaders != nil {
			s.cfg.AddHeaders(w.Header(), r.URL.Path)
		}
		s.cfg.Log.DebugContext(r.Context(), "request of another site refused", logkey.RequestID, id, logkey.Error, err.Error())
		WriteError(w, r.WithContext(WithRequestID(r.Context(), id)), false, err)
	})
}
