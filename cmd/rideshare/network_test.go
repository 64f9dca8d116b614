package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/certtest"
)

// A list of URLs, or a URL with a list of hosts, names several hosts. Several ports of one host are one host.
func TestNamesSeveralHosts(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"":                                  false,
		"file":                              false,
		"zk://zookeeper:2181/rideshare":     false,
		"zk://127.0.0.1:1,127.0.0.1:2/a":    false,
		"amqp://u:p,x@h:1/v":                false,
		"amqp://u:p@h:1/v,amqp://u:p@h:2/v": false,
		"amqp://u:p@h,amqp://u:p@h":         false,
		"zk://a,b":                          true,
		"zk://[::1]:1,[::2]:1/a":            true,
		"postgres://u@a:5432,b:5432/db?search_path=x": true,
		"amqp://u:p@a:1/v,amqp://u:p@b:1/v":           true,
		"amqp://u:p@a,amqp://u:p@b":                   true,
		"amqps://u:p%40x@a:1,b:1/v":                   true,
	} {
		if got := namesSeveralHosts(list); got != want {
			t.Errorf("%s: got %v, want %v", list, got, want)
		}
	}
}

// A part of a cluster refuses to listen beyond this machine unless it verifies its callers, asks for a token over TLS, or the
// network is private. A part of a system with one host may listen anywhere.
func TestInternalAPI_ListensBeyondThisMachineOnlyProtected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certtest.New(t).Write(dir, "localhost", time.Hour)
	cert := tlsSettings{TLSCert: filepath.Join(dir, "cert.pem"), TLSKey: filepath.Join(dir, "key.pem")}
	mutual := cert
	mutual.TLSCA = filepath.Join(dir, "ca.pem")
	const one, several = "zk://a:2181/r", "zk://a:2181,b:2181/r"
	for name, c := range map[string]struct {
		listen, token, url string
		tls                tlsSettings
		private, refused   bool
	}{
		"Plain":        {listen: ":9600", url: several, refused: true},
		"PlainAddress": {listen: "10.0.0.1:9600", url: several, refused: true},
		"PlainName":    {listen: "host-a:9600", url: several, refused: true},
		"PlainToken":   {listen: ":9600", token: "secret", url: several, refused: true},
		"ServerTLS":    {listen: ":9600", url: several, tls: cert, refused: true},
		"TokenTLS":     {listen: ":9600", token: "secret", url: several, tls: cert},
		"MutualTLS":    {listen: ":9600", url: several, tls: mutual},
		"Private":      {listen: ":9600", url: several, private: true},
		"Loopback":     {listen: "127.0.0.1:9600", url: several},
		"Loopback6":    {listen: "[::1]:9600", url: several},
		"LocalName":    {listen: "localhost:9600", url: several},
		"Socket":       {listen: "unix:///run/persdb", url: several},
		"OneHost":      {listen: ":9600", url: one},
	} {
		out := &output{}
		var err error
		if out.tls, err = c.tls.load(out); err != nil {
			t.Fatal(err)
		}
		err = internalAPI{PrivateNetwork: c.private}.checkListen(out, "--listen", c.listen, c.token, "file", c.url)
		var wrong *usageError
		if refused := errors.As(err, &wrong); refused != c.refused || (err != nil && !refused) {
			t.Errorf("%s: got error %v, want refused %v", name, err, c.refused)
		}
		warned := internalAPI{PrivateNetwork: c.private}.exposed(out, "warning") != ""
		if want := !c.private && c.tls.TLSCA == ""; warned != want {
			t.Errorf("%s: got a warning %v, want %v", name, warned, want)
		}
	}
}

// Each part with an internal API checks its address, before it opens anything.
func TestParts_InCluster_RefusePlainHTTP(t *testing.T) {
	const bus, zoo = "amqp://u:broker-secret@a,b/v", "zk://a,b/r"
	for part, args := range map[string]string{
		"persdb":   "--log postgres://u@a,b/db --data DIR",
		"launcher": "--bus amqp://u:p@a/v --persdb-url http://a --coordinator " + zoo + " --data DIR",
		"worker":   "--bus " + bus + " --coordinator zk://a/r --persdb-url http://a --dir DIR",
	} {
		args = strings.ReplaceAll(args, "DIR", filepath.Join(t.TempDir(), "data"))
		var stdout, stderr lines
		code := run(t.Context(), append([]string{part, "--listen", ":0"}, strings.Fields(args)...), &stdout, &stderr)
		text := stderr.text.String()
		if code != exitUsage || !strings.Contains(text, "--private-network") || strings.Contains(text, "broker-secret") {
			t.Errorf("%s: got exit code %d and stderr %q, want %d and the flag's name", part, code, text, exitUsage)
		}
	}
}
