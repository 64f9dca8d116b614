package containers

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/certtest"
	"rideshare/internal/tlsfiles"
)

func (s *stack) scheme() string {
	scheme, _, _ := strings.Cut(s.gateway, "127.0.0.1")
	return scheme
}

// useTLS gives the stack that is started next a certificate for its published address only. The parts share the certificate, and
// accept it from each other under their own names.
func (s *stack) useTLS(t *testing.T) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(s.dir), "tls")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := certtest.New(t)
	cert, key := ca.Write(dir, "127.0.0.1", time.Hour)
	// The tests reach users and rides at addresses that are not in the certificate.
	files, transport := &tlsfiles.Files{}, &http.Transport{}
	if err := files.Replace(cert, key, ca.PEM); err != nil {
		t.Fatal(err)
	}
	files.Trust(transport)
	s.client.Transport = transport
	s.gateway, s.orchestrator = strings.Replace(s.gateway, "http:", "https:", 1), strings.Replace(s.orchestrator, "http:", "https:", 1)
	s.env = append(s.env, "TLS_DIR="+dir, "TLS_CA="+dir+"/ca.pem") // the latter for the commands that the tests run
}

// With TLS_DIR no part serves plain HTTP. persdb, the launcher and the workers refuse callers without a certificate. Prometheus
// has a certificate.
func (s *stack) testTLS(t *testing.T) {
	t.Helper()
	s.awaitTargets(t)
	s.awaitAlerts(t, "RideshareCertificateExpires") // useTLS made one for an hour
	for _, url := range []string{s.gateway, s.orchestrator, s.users(t), s.rides(t)} {
		s.call(t, http.MethodGet, url+"/readyz", "")
		plain := strings.Replace(url, "https:", "http:", 1) + "/readyz"
		if status, text, err := s.try(t.Context(), http.MethodGet, plain, ""); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s (%v), want 400", plain, status, text, err)
		}
	}
	from, worker := s.of(t, "orchestrator").ID, s.workers(t)[0].Config.Labels["rideshare.control"]
	check := func(url string, settings ...string) error {
		_, err := s.run(t.Context(), "docker", append(append([]string{"exec"}, settings...), from, "/rideshare", "healthcheck", url)...)
		return err
	}
	for _, url := range []string{"https://persdb:9530", "https://launcher:9600", worker} {
		if err := check(url); err != nil {
			t.Errorf("with a certificate: %v", err)
		}
		if err := check(url, "-e", "TLS_CERT=", "-e", "TLS_KEY="); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s without a certificate: got %v, want a refusal", url, err)
		}
		plain := strings.Replace(url, "https:", "http:", 1)
		if err := check(plain); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%s: got %v, want 400", plain, err)
		}
	}
}
