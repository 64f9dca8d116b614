package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/certtest"
)

// An empty file is a bad file, not a setting that is missing: a process does not start with it, and a running process keeps
// what it had.
func TestTLSSettings_EmptyFile_IsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		empty      []string
	}{
		{"CA", "CA", []string{"ca.pem"}},
		{"Pair", "certificate and key", []string{"cert.pem", "key.pem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			certtest.New(t).Write(dir, "127.0.0.1", time.Hour)
			path := func(name string) string { return filepath.Join(dir, name) }
			settings := tlsSettings{TLSCert: path("cert.pem"), TLSKey: path("key.pem"), TLSCA: path("ca.pem")}
			out := &output{}
			files, err := settings.load(out)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range tt.empty {
				if err = os.WriteFile(path(name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err = out.watched[0].Load(); err == nil || !files.Verifies() {
				t.Errorf("at a reload: got %v, callers are verified: %t", err, files.Verifies())
			}
			if _, err = settings.load(&output{}); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("at the start: got %v", err)
			}
		})
	}
}
