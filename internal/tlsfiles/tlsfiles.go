// Package tlsfiles makes TLS configurations from files that can change while the process runs.
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// handshakeTimeout bounds a client's handshake.
const handshakeTimeout = 5 * time.Second

// Files hold the certificate of a part and the CA by which it trusts other parts. Nil Files belong to a part without
// TLS settings, which serves plain HTTP and trusts the system's CAs. Files are safe for concurrent use.
type Files struct {
	now atomic.Pointer[contents]
}

// contents is not changed after parsing.
type contents struct {
	cert *tls.Certificate // nil without a certificate
	// earlier is the certificate before cert. Another part with the same files may still present it.
	earlier *tls.Certificate
	ca      *x509.CertPool // nil: the system's
}

// Replace replaces the contents by PEM texts: a certificate chain and its key, or neither; and the certificates of
// one or more CAs, or none. Nil means that there is no such file; an empty text is refused. After an
// error nothing has changed. A certificate that has expired, or is not valid yet, is refused, except at the first call: a
// part may start with it, and can warn about it with Expires.
func (f *Files) Replace(cert, key, ca []byte) error {
	next, old := &contents{}, f.now.Load()
	if cert != nil || key != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("certificate and key: %w", err)
		}
		switch now := time.Now(); {
		case old != nil && now.After(pair.Leaf.NotAfter):
			return fmt.Errorf("the certificate expired at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
		case old != nil && now.Before(pair.Leaf.NotBefore):
			return fmt.Errorf("the certificate is not valid before %s", pair.Leaf.NotBefore.Format(time.RFC3339))
		}
		next.cert = &pair
	}
	if ca != nil {
		var err error
		if next.ca, err = poolOf(ca); err != nil {
			return fmt.Errorf("the file of the CA: %w", err)
		}
	}
	if old != nil {
		next.earlier = old.cert
	}
	f.now.Store(next)
	return nil
}

// poolOf returns the certificates of a PEM text. If a part of the text is no certificate, the text is refused: that part may be
// damaged, and other parts of the system may have certificates of its CA.
func poolOf(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("a part of it is not PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(cert)
		text = rest
	}
	return pool, nil
}

// Expires returns when the certificate expires; zero without a certificate.
func (f *Files) Expires() time.Time {
	if !f.Serves() {
		return time.Time{}
	}
	return f.now.Load().cert.Leaf.NotAfter
}

// Serves reports whether there is a certificate to serve with.
func (f *Files) Serves() bool { return f != nil && f.now.Load().cert != nil }

// Verifies reports whether a listener with Server(true) refuses callers without a certificate of the CA.
func (f *Files) Verifies() bool { return f.Serves() && f.now.Load().ca != nil }

// Scheme returns "https" if there is a certificate to serve with, otherwise "http".
func (f *Files) Scheme() string {
	if f.Serves() {
		return "https"
	}
	return "http"
}

// Server returns the configuration of a listener, for TLS 1.2 and newer; nil if there is no certificate. With
// verifyClients, and with a CA, it refuses clients without a certificate of that CA. Changed files apply from the next
// connection on.
func (f *Files) Server(verifyClients bool) *tls.Config {
	if !f.Serves() {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := f.now.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*now.cert}}
		if verifyClients && now.ca != nil {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, now.ca
		}
		return c, nil
	}}
}

// Trust makes t trust two things: certificates of the CA, and the certificate of these files. The latter is trusted at any
// address, because parts on one machine may share a certificate that does not list their addresses. If a server asks for a
// certificate, t presents that of these files. With nil Files, Trust does not change t.
func (f *Files) Trust(t *http.Transport) {
	if f == nil {
		return
	}
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: handshakeTimeout}).DialContext
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		conn := tls.Client(raw, f.client(host))
		if err = conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, err), raw.Close())
		}
		return conn, nil
	}
}

// client returns the configuration of one connection.
func (f *Files) client(host string) *tls.Config {
	now := f.now.Load()
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		InsecureSkipVerify: true, //nolint:gosec // verify does it, with one more way to be trusted
		VerifyConnection:   func(s tls.ConnectionState) error { return now.verify(host, s.PeerCertificates) },
	}
	if now.cert != nil {
		c.Certificates = []tls.Certificate{*now.cert}
	}
	return c
}

// verify returns an error unless the server's certificate comes from these files, or the CA issued it for host and it
// is valid.
func (c *contents) verify(host string, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the server has no certificate")
	}
	own := func(cert *tls.Certificate) bool { return cert != nil && bytes.Equal(cert.Leaf.Raw, chain[0].Raw) }
	if slices.ContainsFunc([]*tls.Certificate{c.cert, c.earlier}, own) {
		return nil
	}
	options := x509.VerifyOptions{Roots: c.ca, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(options)
	return err
}
