package httpapi_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/httpapi"
)

func userRequest(t *testing.T, set ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(set); i += 2 {
		r.Header.Set(set[i], set[i+1])
	}
	return r
}

// With credentials the user is the name of the credential, whatever the header says. Without them it is the header.
func TestUsers_Of(t *testing.T) {
	token, line := httpapi.NewToken("robot", httpapi.Write)
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer one\nbasic bob:secret\nuser ann read " + goodHash + "\n" + line))
	if err != nil {
		t.Fatal(err)
	}
	creds.VerifyWith(func(string, string) bool { return true })
	own := creds.Own("users", httpapi.Admin)
	basic := func(name string) string {
		r := userRequest(t)
		r.SetBasicAuth(name, "secret")
		return r.Header.Get("Authorization")
	}
	sum := sha256.Sum256([]byte("one"))
	for _, c := range []struct {
		creds                       *httpapi.Credentials
		authorization, header, want string
	}{
		{creds, "Bearer one", "x", fmt.Sprintf("%x", sum[:4])},
		{creds, "Bearer " + token, "x", "robot"},
		{creds, basic("bob"), "x", "bob"},
		{creds, basic("ann"), "x", "ann"},
		{creds, own, "x", "users"},
		{creds, "Bearer wrong", "x", "default"},
		{creds, "", "x", "default"},
		{nil, "Bearer one", "ann", "ann"},
		{nil, "", "", "default"},
		{nil, "", "a b", "default"},
		{nil, "", strings.Repeat("a", 256), "default"},
	} {
		users := httpapi.NewUsers(c.creds)
		r := userRequest(t, "Authorization", c.authorization, httpapi.HeaderUser, c.header)
		for range 2 {
			if got := users.Of(r); got != c.want {
				t.Errorf("%q, header %q: got user %q, want %q", c.authorization, c.header, got, c.want)
			}
		}
	}
}

// Users beyond 10,000 share one name, until the known users are forgotten after an hour.
func TestUsers_TooMany_ShareOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := httpapi.NewUsers(nil)
		of := func(i int) string { return users.Of(userRequest(t, httpapi.HeaderUser, strconv.Itoa(i))) }
		for i := range 10_000 {
			if got := of(i); got != strconv.Itoa(i) {
				t.Fatalf("user %d: got %q", i, got)
			}
		}
		if got := of(10_000); got != httpapi.OtherUsers {
			t.Errorf("user 10,001: got %q, want %q", got, httpapi.OtherUsers)
		}
		if got := of(0); got != "0" {
			t.Errorf("the first user again: got %q, want 0", got)
		}
		time.Sleep(time.Hour)
		if got := of(10_000); got != "10000" {
			t.Errorf("user 10,001 an hour later: got %q, want 10000", got)
		}
	})
}

// Telling users apart costs no allocation.
func TestUsers_Of_DoesNotAllocate(t *testing.T) {
	users := httpapi.NewUsers(nil)
	r := userRequest(t, httpapi.HeaderUser, "ann")
	if got := testing.AllocsPerRun(100, func() { users.Of(r) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
