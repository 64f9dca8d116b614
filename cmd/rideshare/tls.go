package main

import (
	"net/http"
	"path/filepath"

	"rideshare/internal/httpapi"
	"rideshare/internal/reload"
	"rideshare/internal/tlsfiles"
)

// tlsSettings are the settings of every command that listens or calls another part.
type tlsSettings struct {
	TLSCert string `name:"tls-cert" default:"" placeholder:"FILE" env:"TLS_CERT" help:"Certificate in PEM, with its chain, of each TCP listener of this process; then there is no plain HTTP. It is also shown to parts that ask for one. Changes count within 5 s, and at once at SIGHUP. Default: no TLS."`
	TLSKey  string `name:"tls-key" default:"" placeholder:"FILE" env:"TLS_KEY" help:"Key of --tls-cert in PEM."`
	TLSCA   string `name:"tls-ca" default:"" placeholder:"FILE" env:"TLS_CA" help:"Certificates in PEM of the CAs that this process trusts in other parts. persdb, worker and launcher then refuse callers without a certificate of them. Default: those of the system, and no certificate is asked for."`
}

// load reads the files, which follow keeps current. It returns nil without files.
func (t tlsSettings) load(out *output) (*tlsfiles.Files, error) {
	if (t.TLSCert == "") != (t.TLSKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together: give both or neither")
	}
	var paths []string
	for _, path := range []string{t.TLSCert, t.TLSKey, t.TLSCA} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // nil is valid: plain HTTP
	}
	files := &tlsfiles.Files{}
	w := &reload.Watcher{What: filesTLS, Paths: paths, Apply: func(contents [][]byte) error {
		var cert, key, ca []byte // nil only without the setting: the contents of an empty file are not nil
		if t.TLSCert != "" {
			cert, key, contents = contents[0], contents[1], contents[2:]
		}
		if t.TLSCA != "" {
			ca = contents[0]
		}
		return files.Replace(cert, key, ca)
	}}
	if err := w.Load(); err != nil {
		return nil, usagef("TLS: %v", err)
	}
	out.watched = append(out.watched, w)
	var err error
	out.tlsEnv, err = t.env()
	return files, err
}

// env returns the settings for a child process, which may have another working directory.
func (t tlsSettings) env() ([]string, error) {
	var env []string
	for _, setting := range []struct{ name, path string }{{"TLS_CERT", t.TLSCert}, {"TLS_KEY", t.TLSKey}, {"TLS_CA", t.TLSCA}} {
		if setting.path == "" {
			continue
		}
		path, err := filepath.Abs(setting.path)
		if err != nil {
			return nil, usagef("%s: %v", setting.name, err)
		}
		env = append(env, setting.name+"="+path)
	}
	return env, nil
}

// verifiesCallers returns an error if a part should verify its callers' certificates, but has no certificate of its own.
// Without TLS on its listener it cannot ask callers for one.
func (o *output) verifiesCallers() error {
	if o.tls != nil && !o.tls.Serves() {
		return usagef("--tls-ca: persdb, workers and launcher ask their callers for a certificate, which needs --tls-cert and --tls-key too")
	}
	return nil
}

// unlessVerified returns warning, or "" if the part verifies its callers' certificates. Such parts require no other
// credentials.
func (o *output) unlessVerified(warning string) string {
	if o.tls.Verifies() {
		return ""
	}
	return warning
}

// httpClient returns a client that uses the TLS settings.
func (o *output) httpClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // Its type is documented.
	o.tls.Trust(transport)
	return &http.Client{Transport: transport}
}

// reach is httpapi.Reach with the TLS settings.
func (o *output) reach(address string) (base string, transport *http.Transport, err error) {
	base, transport, err = httpapi.Reach(address)
	if err == nil {
		o.tls.Trust(transport)
	}
	return base, transport, err
}
