// Package certtest makes certificates as docs/OPERATIONS.md does with openssl.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA issues certificates.
type CA struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // of its certificate
}

// New returns a new CA.
func New(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{tb: tb, key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	ca.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return ca
}

// Issue returns a certificate for a DNS name or an address, for servers and clients, that ends after valid, and its key.
func (ca *CA) Issue(name string, valid time.Duration) (cert, key []byte) {
	ca.tb.Helper()
	return ca.IssueFrom(name, time.Now().Add(-2*time.Hour), valid)
}

// IssueFrom is Issue for a certificate that becomes valid at from.
func (ca *CA) IssueFrom(name string, from time.Time, valid time.Duration) (cert, key []byte) {
	ca.tb.Helper()
	own := newKey(ca.tb)
	template := &x509.Certificate{
		SerialNumber: serial(ca.tb), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   from, NotAfter: time.Now().Add(valid),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, own.Public(), ca.key)
	if err != nil {
		ca.tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		ca.tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// Write is Issue, and writes cert.pem, key.pem and ca.pem into dir.
func (ca *CA) Write(dir, name string, valid time.Duration) (cert, key []byte) {
	ca.tb.Helper()
	cert, key = ca.Issue(name, valid)
	for file, text := range map[string][]byte{"cert.pem": cert, "key.pem": key, "ca.pem": ca.PEM} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			ca.tb.Fatal(err)
		}
	}
	return cert, key
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
