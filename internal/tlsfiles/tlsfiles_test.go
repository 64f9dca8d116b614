package tlsfiles_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/certtest"
	"rideshare/internal/tlsfiles"
)

// files returns Files with a certificate of ca for name, "" for none, that trust trusted, nil for the system's CAs.
func files(t *testing.T, ca *certtest.CA, name string, valid time.Duration, trusted *certtest.CA) *tlsfiles.Files {
	t.Helper()
	var cert, key, roots []byte
	if name != "" {
		cert, key = ca.Issue(name, valid)
	}
	if trusted != nil {
		roots = trusted.PEM
	}
	f := &tlsfiles.Files{}
	if err := f.Replace(cert, key, roots); err != nil {
		t.Fatal(err)
	}
	return f
}

// serve returns the URL of a server with f.
func serve(t *testing.T, f *tlsfiles.Files, verifyClients bool) string {
	t.Helper()
	s := httpapi.NewServer(httpapi.ServerConfig{
		Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), TLS: f.Server(verifyClients),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || r.TLS.Version < tls.VersionTLS12 || r.ProtoMajor != 1 {
				w.WriteHeader(http.StatusTeapot)
			}
		}),
	})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s.URL()
}

// get returns "ok", or why there was no answer 200.
func get(t *testing.T, f *tlsfiles.Files, url string) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	f.Trust(transport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return resp.Status + " " + string(text)
	}
	return "ok"
}

// refusal returns why the server ended a connection on which nothing was sent. In TLS 1.3 the server checks the client's
// certificate after the client has finished its handshake. If the client sends a request before that, its error may not name the
// certificate.
func refusal(t *testing.T, f *tlsfiles.Files, url string) string {
	t.Helper()
	var transport http.Transport
	f.Trust(&transport)
	conn, err := transport.DialTLSContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	if err = conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err = conn.Read(make([]byte, 1)); err == nil {
		return "an answer"
	}
	return err.Error()
}

// A client accepts a certificate of the CA for the server's address, and its own. A server that verifies its clients
// accepts those of its CA.
func TestFiles_WhoTrustsWhom(t *testing.T) {
	ours, other := certtest.New(t), certtest.New(t)
	const ip, hour, past = "127.0.0.1", time.Hour, -time.Hour
	server := files(t, ours, ip, hour, ours)
	elsewhere := files(t, ours, "db.example", hour, ours)
	for _, tt := range []struct {
		name           string
		server, client *tlsfiles.Files
		verify         bool
		want           string // a part of the error
	}{
		{"OfOurCA", server, files(t, ours, "", 0, ours), false, "ok"},
		{"ForeignServer", server, files(t, ours, "", 0, other), false, "unknown authority"},
		{"SystemCAs", server, nil, false, "unknown authority"},
		{"OtherName", elsewhere, files(t, ours, "", 0, ours), false, "127.0.0.1"},
		{"OwnCertificate", elsewhere, elsewhere, true, "ok"},
		{"ExpiredServer", files(t, ours, ip, past, ours), files(t, ours, "", 0, ours), false, "expired"},
		{"NoClientCertificate", server, files(t, ours, "", 0, ours), true, "certificate"},
		{"ClientOfOurCA", server, files(t, ours, "worker", hour, ours), true, "ok"},
		{"ForeignClient", server, files(t, other, "worker", hour, ours), true, "certificate"},
		{"ExpiredClient", server, files(t, ours, "worker", past, ours), true, "certificate"},
		{"NoCAToVerify", files(t, ours, ip, hour, nil), files(t, ours, "", 0, ours), true, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, ask := serve(t, tt.server, tt.verify), get
			if tt.want == "certificate" {
				ask = refusal
			}
			if got := ask(t, tt.client, url); !strings.HasPrefix(url, "https://") || !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %s, want %s", url, got, tt.want)
			}
		})
	}
}

// A TLS port answers neither plain HTTP nor TLS before 1.2.
func TestFiles_OldProtocols_AreRefused(t *testing.T) {
	ca := certtest.New(t)
	url := serve(t, files(t, ca, "127.0.0.1", time.Hour, nil), false)
	if got := get(t, nil, strings.Replace(url, "https", "http", 1)); !strings.Contains(got, "400") || !strings.Contains(got, "HTTPS") {
		t.Errorf("plain HTTP: got %s", got)
	}
	address := strings.TrimPrefix(url, "https://")
	for version, good := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if (err == nil) != good {
			t.Errorf("TLS %x: got %v", version, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

// A new pair counts for the next connection, of both sides; a bad one changes nothing. An empty file is bad.
func TestFiles_Replace(t *testing.T) {
	ours, next := certtest.New(t), certtest.New(t)
	server, client := files(t, ours, "127.0.0.1", time.Hour, nil), files(t, ours, "", 0, ours)
	url := serve(t, server, false)
	cert, key := next.Issue("127.0.0.1", 2*time.Hour)
	otherCert, _ := next.Issue("127.0.0.1", time.Hour)
	expired, expiredKey := next.Issue("127.0.0.1", -time.Hour)
	early, earlyKey := next.IssueFrom("127.0.0.1", time.Now().Add(time.Hour), 2*time.Hour)
	damaged := append(slices.Clone(ours.PEM), bytes.Replace(next.PEM, []byte("\nMI"), []byte("\nxx"), 1)...)
	before := server.Expires()
	for _, bad := range [][3][]byte{
		{cert, nil, nil},
		{nil, key, nil},
		{[]byte("x"), key, nil},
		{otherCert, key, nil},
		{expired, expiredKey, nil},
		{early, earlyKey, nil},
		{cert, key, damaged},
		{cert, key, append(slices.Clone(ours.PEM), "rest"...)},
		{cert, key, []byte("x")},
		{cert, key, key},
		{cert, key, {}},
		{{}, {}, nil},
		{cert, {}, nil},
		{{}, key, nil},
	} {
		if err := server.Replace(bad[0], bad[1], bad[2]); err == nil || server.Expires() != before {
			t.Errorf("bad files: got %v", err)
		}
	}
	if got := get(t, client, url); got != "ok" {
		t.Errorf("after bad files: got %s", got)
	}
	if err := server.Replace(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	if got := get(t, client, url); !strings.Contains(got, "unknown authority") {
		t.Errorf("after a new pair: got %s", got)
	}
	if err := client.Replace(nil, nil, next.PEM); err != nil {
		t.Fatal(err)
	}
	if got := get(t, client, url); got != "ok" {
		t.Errorf("after a new CA: got %s", got)
	}
	if left := time.Until(server.Expires()); left < time.Hour || left > 2*time.Hour {
		t.Errorf("expires in %v, want two hours", left)
	}
}

// A server that has not read a new pair yet, and a client that has, still know each other.
func TestFiles_OwnCertificateBefore_IsTrusted(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue("db.example", time.Hour)
	server, client := &tlsfiles.Files{}, &tlsfiles.Files{}
	for _, f := range []*tlsfiles.Files{server, client} {
		if err := f.Replace(cert, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	url := serve(t, server, false)
	cert, key = ca.Issue("db.example", time.Hour)
	if err := client.Replace(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	if got := get(t, client, url); got != "ok" {
		t.Errorf("got %s", got)
	}
}

// A client that opens a connection and says nothing does not keep others from theirs.
func TestFiles_SilentClient(t *testing.T) {
	ca := certtest.New(t)
	url := serve(t, files(t, ca, "127.0.0.1", time.Hour, nil), false)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := get(t, files(t, ca, "", 0, ca), url); got != "ok" {
		t.Errorf("got %s", got)
	}
}
