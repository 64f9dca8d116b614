package httpapi_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
)

// An invalid file causes an error that shows no secret.
func TestParseCredentials_BrokenFiles_AreErrors(t *testing.T) {
	for _, file := range []string{"", "# only\n", "hunter2", "bearer", "bearer ", "bearer hunter2 x", "basic hunter2", "basic :hunter2", "digest hunter2", "bearer ok\nhunter2\n"} {
		_, err := httpapi.ParseCredentials(strings.NewReader(file))
		if !errors.Is(err, httpapi.ErrCredentials) || strings.Contains(err.Error(), "hunter2") {
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
		return k.Caller(r)
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
