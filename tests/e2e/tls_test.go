package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/certtest"
	"rideshare/internal/testkit/doctest"
	"rideshare/internal/testkit/testenv"
)

func (s *system) scheme() string {
	if s.setup.tls != "" {
		return "https://"
	}
	return "http://"
}

// withTLS returns the setup of a system with a certificate that ca issues for name.
func withTLS(t *testing.T, ca *certtest.CA, name string) setup {
	t.Helper()
	dir := t.TempDir()
	ca.Write(dir, name, time.Hour)
	return setup{owned: true, tls: dir, flags: []string{"--tls-cert", dir + "/cert.pem", "--tls-key", dir + "/key.pem", "--tls-ca", dir + "/ca.pem"}}
}

// trust makes the tests' client trust ca. Every connection is a new one.
func (s *system) trust(ca *certtest.CA) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	s.client.Transport = s.documented(&http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}

// With TLS and users, everything works over https only. The parts of the process call each other over https, whatever the
// name in the certificate, and check, load and healthcheck take the flags. A new pair is served within 5 s; a bad pair
// changes nothing.
func TestTLS_UpWithRoles(t *testing.T) {
	ca := certtest.New(t)
	s := withTLS(t, ca, "127.0.0.1")
	file := filepath.Join(t.TempDir(), "auth")
	testenv.Replace(t, file, userLine(t, "ann", "admin"))
	s.env, s.flags = []string{"AUTH_FILE=" + file}, append(s.flags, "--demo")
	sys := start(t, s)
	sys.trust(ca)
	sys.PutUser(t, "passenger")
	sys.NewRide(t, "passenger", 0)
	if err := sys.asks(t, "/db/execute", as("ann"), 200); err != nil {
		t.Error(err)
	}
	for _, base := range []string{sys.Gateway, sys.Users, sys.Rides, sys.Orchestrator} {
		plain := strings.Replace(base, "https", "http", 1)
		sys.Get(t, plain+"/readyz").expect(t, http.StatusBadRequest, anyBody)
	}
	trusts := []string{"TLS_CA=" + s.tls + "/ca.pem", "RIDESHARE_PASSWORD=pw of ann"}
	for _, args := range [][]string{
		{"healthcheck", sys.Orchestrator},
		{"check", "--orchestrator", sys.Orchestrator, "--user", "ann"},
		{"load", "--ready-file", sys.readyFile(), "--user", "ann", "--duration", "1s", "--rate", "20"},
	} {
		if got := runBinary(t, trusts, args...); got.code != 0 {
			t.Errorf("%v: got %d, %s", args, got.code, got.stderr)
		}
	}
	runBinary(t, nil, "healthcheck", sys.Orchestrator).expect(t, 1, "unknown authority")

	serial := sys.serial(t)
	testenv.Replace(t, s.tls+"/key.pem", "no key")
	sys.awaitLog(t, `"ERROR"`, `"part":"up"`, `"tls"`) // other processes watch the same files, each at its own time
	if now := sys.serial(t); now != serial {
		t.Error("a bad pair has changed the certificate")
	}
	ca.Write(s.tls, "127.0.0.1", 30*time.Minute)
	eventually(t, reloadLimit, func() error {
		if sys.serial(t) == serial {
			return fmt.Errorf("certificate %s is still served", serial)
		}
		return nil
	})
	if left := sys.metric(t, "rideshare_tls_certificate_expiry_seconds"); left < 1000 || left > 1800 {
		t.Errorf("expires in %v seconds, want half an hour", left)
	}
	if failed := sys.metric(t, `rideshare_reloads_total{files="tls",result="failed"}`); failed < 1 {
		t.Errorf("got %v failed reloads, want one", failed)
	}
	sys.PutUser(t, "second")
}

// serial is that of the certificate that the orchestrator serves.
func (s *system) serial(t *testing.T) string {
	t.Helper()
	resp, err := s.client.Get(s.db("/livez"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.TLS.PeerCertificates[0].SerialNumber.String()
}

// metric is the value of a series.
func (s *system) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(s.Get(t, s.db("/metrics")).Body) {
		if text, found := strings.CutPrefix(line, series+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", series)
	return 0
}

// The name in the certificate need not be the address at which the parts of the process reach each other.
func TestTLS_CertificateOfAnotherName(t *testing.T) {
	ca := certtest.New(t)
	sys := start(t, withTLS(t, ca, "db.example"))
	sys.trust(ca)
	sys.client.Transport.(*doctest.Transport).TLSClientConfig.ServerName = "db.example"
	sys.PutUser(t, "ann")
	sys.NewRide(t, "ann", 0)
}

// persdb with a CA refuses callers without a certificate of it.
func TestTLS_PersdbVerifiesItsCallers(t *testing.T) {
	ours, other := certtest.New(t), certtest.New(t)
	dir, foreign := t.TempDir(), t.TempDir()
	ours.Write(dir, "127.0.0.1", time.Hour)
	other.Write(foreign, "127.0.0.1", time.Hour)
	flags := func(dir string) []string {
		return []string{"--tls-cert", dir + "/cert.pem", "--tls-key", dir + "/key.pem", "--tls-ca", dir + "/ca.pem"}
	}
	log := filepath.Join(dir, "log")
	proc, err := startProcess(log, nil, append([]string{"persdb", "--data", dir + "/data", "--listen", "127.0.0.1:0"}, flags(dir)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proc.signal(os.Kill)
		<-proc.done
	})
	var url string
	eventually(t, startLimit, func() error {
		text, err := os.ReadFile(log)
		for line := range bytes.Lines(text) {
			var entry struct{ Msg, Addr string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "part started" {
				url = "https://" + entry.Addr
				return nil
			}
		}
		return fmt.Errorf("persdb has not started: %s (%w)", text, err)
	})
	if got := runBinary(t, nil, append([]string{"healthcheck", url}, flags(dir)...)...); got.code != 0 {
		t.Errorf("with a certificate: got %d, %s", got.code, got.stderr)
	}
	runBinary(t, nil, "healthcheck", url, "--tls-ca", dir+"/ca.pem").expect(t, 1, "certificate")
	trusting := slices.Concat([]string{"healthcheck", url}, flags(foreign)[:4], []string{"--tls-ca", dir + "/ca.pem"})
	runBinary(t, nil, trusting...).expect(t, 1, "certificate")
	runBinary(t, nil, "healthcheck", strings.Replace(url, "https", "http", 1)).expect(t, 1, "400")
}

// A certificate without a key or the reverse, a missing file, and a CA without a certificate to serve with are wrong
// usage.
func TestTLS_WrongUsage_ExitsTwo(t *testing.T) {
	dir := t.TempDir()
	certtest.New(t).Write(dir, "127.0.0.1", time.Hour)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"up", "--data", dir, "--tls-cert", dir + "/cert.pem"}, "--tls-key"},
		{[]string{"gateway", "--users-url", "http://x", "--rides-url", "http://x", "--tls-key", dir + "/key.pem"}, "--tls-cert"},
		{[]string{"up", "--data", dir, "--tls-cert", dir + "/missing", "--tls-key", dir + "/key.pem"}, "missing"},
		{[]string{"up", "--data", dir, "--tls-cert", dir + "/key.pem", "--tls-key", dir + "/cert.pem"}, "certificate"},
		{[]string{"up", "--data", dir, "--tls-ca", dir + "/key.pem"}, "CA"},
		{[]string{"persdb", "--data", dir, "--tls-ca", dir + "/ca.pem"}, "--tls-cert"},
		{[]string{"healthcheck", "https://127.0.0.1:1", "--tls-key", dir + "/key.pem"}, "--tls-cert"},
	} {
		runBinary(t, nil, c.args...).expect(t, 2, c.says)
	}
}
