package httpapi_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
)

const goodHash = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"

// An invalid file causes an error that shows no secret.
func TestParseCredentials_BrokenFiles_AreErrors(t *testing.T) {
	for _, file := range []string{
		"", "# only\n", "hunter2", "bearer", "bearer ", "bearer hunter2 x", "basic hunter2", "basic :hunter2", "digest hunter2", "bearer ok\nhunter2\n",
		"user hunter2", "user hunter2 read", "user hunter2 read $2b$hunter2", "user hunter2 owner " + goodHash, "user hunter2 open " + goodHash, "user a:hunter2 read " + goodHash,
		"user ann read " + goodHash + " hunter2", "user ann read " + goodHash + "\nuser ann write " + goodHash, "user hunter2\x00 read " + goodHash, "User ann read " + goodHash,
		"token hunter2 read", "token ann read hunter2", "token ann read sha256:hunter2", "token ann read " + strings.Repeat("0", 64), "token ann read sha256:" + strings.Repeat("0", 62),
		"token ann read sha256:" + strings.Repeat("0", 64) + "\ntoken bob admin sha256:" + strings.Repeat("0", 64),
	} {
		_, err := httpapi.ParseCredentials(strings.NewReader(file))
		if !errors.Is(err, httpapi.ErrCredentials) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), goodHash) {
			t.Errorf("file %q: got %v", file, err)
		}
	}
}

// Only accepted credentials identify a caller. A basic user stays the same caller when the password changes.
func TestCredentials_Caller(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer one\nbearer two\nbasic ann:old\nbasic ann:new\nbasic bob:old\n"))
	if err != nil {
		t.Fatal(err)
	}
	caller := func(k *httpapi.Credentials, set func(*http.Request)) string {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		set(r)
		name, err := k.Caller(r)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for name, got := range map[string]string{
		"no header":      caller(creds, func(*http.Request) {}),
		"wrong token":    caller(creds, bearer("three")),
		"wrong password": caller(creds, basic("ann", "x")),
		"no credentials": caller(nil, bearer("one")),
	} {
		if got != "" {
			t.Errorf("%s: got caller %q, want none", name, got)
		}
	}
	seen := map[string]bool{}
	for _, set := range []func(*http.Request){bearer("one"), bearer("two"), basic("ann", "old"), basic("bob", "old")} {
		got := caller(creds, set)
		if got == "" || seen[got] || strings.Contains(got, "one") || strings.Contains(got, "old") {
			t.Errorf("got caller %q, want one of its own that holds no secret", got)
		}
		seen[got] = true
	}
	if !seen[caller(creds, basic("ann", "new"))] {
		t.Error("ann with another password is another caller")
	}
}

// The same key of another service, caller, method or path is another key, wherever the parts are split.
func TestKeyScope_AnyPartDiffers_AnotherKey(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []httpapi.KeyScope{
		{}, {Service: "a"}, {Caller: "a"}, {Method: "a"}, {Path: "a"}, {Service: "ab"}, {Service: "a", Caller: "b"}, {Method: "a", Path: "b"},
	} {
		for _, key := range []string{"1", "2", "a", "b"} {
			got := s.Key(key)
			if seen[got] || len(got) != 64 || s.Key(key) != got {
				t.Errorf("%+v %s: got %q", s, key, got)
			}
			seen[got] = true
		}
	}
	if got := (httpapi.KeyScope{Service: "users"}).Key(""); got != "" {
		t.Errorf("no key: got %q, want none", got)
	}
}

// The parts of the system call each other with the first line of the file.
func TestCredentials_Authorization_IsTheFirstLine(t *testing.T) {
	for file, want := range map[string]string{
		"# ours\n\nbearer t0ken\nbasic a:b\n": "Bearer t0ken",
		"basic u:p\nbearer x":                 "Basic dTpw",
	} {
		creds, err := httpapi.ParseCredentials(strings.NewReader(file))
		if got := creds.Authorization(); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", file, got, err, want)
		}
	}
	var open *httpapi.Credentials
	if got := open.Authorization(); got != "" {
		t.Errorf("without credentials: got %q, want none", got)
	}
}

// A file without an old line has nothing to send, and then may not lose it either.
func TestCredentials_RequireAuthorization(t *testing.T) {
	hashed, err := httpapi.ParseCredentials(strings.NewReader("user ann admin " + goodHash))
	if err != nil || !errors.Is(hashed.RequireAuthorization(), httpapi.ErrCredentials) {
		t.Errorf("only hashes: got %v", err)
	}
	creds, err := httpapi.ParseCredentials(strings.NewReader("user ann admin " + goodHash + "\nbearer t0ken"))
	if err != nil || creds.RequireAuthorization() != nil {
		t.Fatal(err)
	}
	if err = creds.Replace([]byte("user ann admin " + goodHash)); !errors.Is(err, httpapi.ErrCredentials) || creds.Authorization() != "Bearer t0ken" {
		t.Errorf("got %v, and %q is sent", err, creds.Authorization())
	}
}
