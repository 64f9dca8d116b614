package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
	"rideshare/internal/passhash"
)

// cheap is a cost for tests that hash much.
var cheap = passhash.Cost{MemoryKiB: 8, Passes: 1}

func userLine(name, role, password string, cost passhash.Cost) string {
	return "user " + name + " " + role + " " + passhash.Argon2id(password, [passhash.SaltSize]byte{1}, cost) + "\n"
}

// newGuarded returns an API with a route for each role, and its credentials.
func newGuarded(t *testing.T, file string) (*httpapi.API, *httpapi.Credentials) {
	t.Helper()
	creds, err := httpapi.ParseCredentials(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	for path, need := range map[string]httpapi.Access{
		"/read": {Role: httpapi.Read}, "/write": {Role: httpapi.Write}, "/admin": {Role: httpapi.Admin},
		"/view": {Role: httpapi.Read, OpenBefore: true},
	} {
		a.Handle(http.MethodGet, path, creds.Guard(need, ok))
	}
	return a, creds
}

// ask returns the answer of a route for a name and password, or for a bearer token if there is no password.
func ask(ctx context.Context, a http.Handler, path, name, password string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	switch {
	case password != "":
		r.SetBasicAuth(name, password)
	case name != "":
		r.Header.Set("Authorization", "Bearer "+name)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// Each role includes those before it. Missing and wrong credentials are 401 with a challenge, a missing role is 403.
func TestGuard_Roles(t *testing.T) {
	token, tokenLine := httpapi.NewToken("reports", httpapi.Read)
	a, _ := newGuarded(t, "bearer old\nbasic root:pw\n"+tokenLine+"\n"+userLine("ann", "write", "secret", cheap)+userLine("eve", "read", "x:y", cheap))
	for _, tt := range []struct {
		name, password           string
		read, write, admin, view int
	}{
		{"old", "", 200, 200, 200, 200},
		{"root", "pw", 200, 200, 200, 200},
		{token, "", 200, 403, 403, 200},
		{"ann", "secret", 200, 200, 403, 200},
		{"eve", "x:y", 200, 403, 403, 200},
		{"", "", 401, 401, 401, 401},
		{"other", "", 401, 401, 401, 401},
		{"ann", "x:y", 401, 401, 401, 401},
		{"root", "secret", 401, 401, 401, 401},
		{"nobody", "secret", 401, 401, 401, 401},
		{"reports", token, 401, 401, 401, 401},
	} {
		for path, want := range map[string]int{"/read": tt.read, "/write": tt.write, "/admin": tt.admin, "/view": tt.view} {
			w := ask(t.Context(), a, path, tt.name, tt.password)
			challenge, body := w.Header().Get("WWW-Authenticate"), w.Body.String()
			if w.Code != want || (challenge != "") != (want == 401) || strings.Contains(body, `"code":"forbidden"`) != (want == 403) {
				t.Errorf("%s as %.8s: got %d %s with challenge %q, want %d", path, tt.name, w.Code, body, challenge, want)
			}
		}
	}
}

// A route that was open before there were roles stays open until a line has a role.
func TestGuard_OnlyOldLines_ViewsStayOpen(t *testing.T) {
	a, creds := newGuarded(t, "bearer old\n")
	if w := ask(t.Context(), a, "/view", "", ""); w.Code != http.StatusOK {
		t.Errorf("old lines only: got %d", w.Code)
	}
	if err := creds.Replace([]byte("bearer old\n" + userLine("ann", "read", "secret", cheap))); err != nil {
		t.Fatal(err)
	}
	if w := ask(t.Context(), a, "/view", "", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("with a role: got %d", w.Code)
	}
}

// A changed file counts for the next request, a malformed one changes nothing.
func TestCredentials_Replace(t *testing.T) {
	a, creds := newGuarded(t, userLine("ann", "write", "secret", cheap)+userLine("bob", "write", "secret", cheap))
	own := creds.Own("up", httpapi.Write)
	status := func(path, name, password string) int { return ask(t.Context(), a, path, name, password).Code }
	if got := status("/write", "ann", "secret") + status("/write", "bob", "secret"); got != 400 {
		t.Fatalf("before: got %d", got)
	}
	for _, bad := range []string{"", "user ann", userLine("ann", "read", "secret", cheap) + "x\n"} {
		if err := creds.Replace([]byte(bad)); err == nil || status("/write", "ann", "secret") != 200 {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if err := creds.Replace([]byte(userLine("ann", "read", "secret", cheap))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, name string
		want       int
	}{{"/write", "ann", 403}, {"/read", "ann", 200}, {"/read", "bob", 401}} {
		if got := status(tt.path, tt.name, "secret"); got != tt.want {
			t.Errorf("after: %s as %s: got %d, want %d", tt.path, tt.name, got, tt.want)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/write", http.NoBody)
	r.Header.Set("Authorization", own)
	w := httptest.NewRecorder()
	if a.ServeHTTP(w, r); w.Code != http.StatusOK || httpapi.CallerOf(own) != "basic up" {
		t.Errorf("the process's own credentials: got %d for caller %q", w.Code, httpapi.CallerOf(own))
	}
}

// A changed password or a removed user ends that caller's streams, and no other.
func TestGuard_Stream_EndsWithTheCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hashed := userLine("ann", "read", "secret", cheap) + userLine("bob", "read", "secret", cheap) + userLine("eve", "read", "secret", cheap)
		creds, err := httpapi.ParseCredentials(strings.NewReader(hashed))
		if err != nil {
			t.Fatal(err)
		}
		a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
		var mu sync.Mutex
		ended := map[string]bool{}
		a.Handle(http.MethodGet, "/events/:name", creds.Guard(httpapi.Access{Role: httpapi.Read, Stream: true}, func(c echo.Context) error {
			<-c.Request().Context().Done()
			mu.Lock()
			defer mu.Unlock()
			ended[httpapi.Param(c, "name")] = true
			return nil
		}))
		for _, name := range []string{"ann", "bob", "eve"} {
			go ask(t.Context(), a, "/events/"+name, name, "secret")
		}
		synctest.Wait()
		if err = creds.Replace([]byte(userLine("ann", "admin", "secret", cheap) + userLine("eve", "read", "changed", cheap))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if ended["ann"] || !ended["bob"] || !ended["eve"] {
			t.Errorf("ended: %v, want those of bob and eve", ended)
		}
	})
}

// Two hashes run and 64 wait; any further request is 503 at once. A user who was verified in the last minute does not
// wait, and neither does a token.
func TestGuard_HashFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token, tokenLine := httpapi.NewToken("reports", httpapi.Read)
		a, creds := newGuarded(t, tokenLine+"\n"+userLine("ann", "read", "secret", cheap))
		if w := ask(t.Context(), a, "/read", "ann", "secret"); w.Code != http.StatusOK {
			t.Fatalf("got %d", w.Code)
		}
		var running atomic.Int64
		finish := make(chan struct{})
		creds.VerifyWith(func(_, password string) bool {
			running.Add(1)
			<-finish
			return password == "secret"
		})
		codes := make(chan int, 100)
		for i := range 66 {
			go func() { codes <- ask(t.Context(), a, "/read", "user"+strconv.Itoa(i), "wrong").Code }()
		}
		synctest.Wait()
		if running.Load() != 2 || len(codes) != 0 {
			t.Errorf("got %d hashes and %d answers, want 2 and none", running.Load(), len(codes))
		}
		for name, want := range map[string]int{"ann": 503, "other": 503} {
			w := ask(t.Context(), a, "/read", name, "guess")
			if w.Code != want || w.Header().Get("Retry-After") == "" {
				t.Errorf("a guess for %s: got %d %s", name, w.Code, w.Body)
			}
		}
		for name, password := range map[string]string{"ann": "secret", token: ""} {
			if w := ask(t.Context(), a, "/read", name, password); w.Code != http.StatusOK {
				t.Errorf("%.3s beside the flood: got %d", name, w.Code)
			}
		}
		close(finish)
		for range 66 {
			if code := <-codes; code != http.StatusUnauthorized {
				t.Errorf("a guess that waited: got %d", code)
			}
		}
	})
}

// A client that gives up frees its place in the queue.
func TestGuard_GoneClient_LeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, creds := newGuarded(t, userLine("ann", "read", "secret", cheap))
		finish := make(chan struct{})
		creds.VerifyWith(func(string, string) bool { <-finish; return true })
		gone, leave := context.WithCancel(t.Context())
		for range 66 {
			go ask(gone, a, "/read", "ann", "guess")
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		late := make(chan int)
		go func() { late <- ask(t.Context(), a, "/read", "ann", "secret").Code }()
		synctest.Wait()
		close(finish)
		if code := <-late; code != http.StatusOK {
			t.Errorf("got %d", code)
		}
		synctest.Wait()
	})
}

// A verified password is remembered for a minute after its last use. An unknown name takes a hash as a known one does.
func TestGuard_VerifiedPassword_IsRememberedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, creds := newGuarded(t, userLine("ann", "read", "secret", cheap))
		hashes := 0
		creds.VerifyWith(func(_, password string) bool { hashes++; return password != "wrong" })
		for i, tt := range []struct {
			pause          time.Duration
			name, password string
			code, hashes   int
		}{
			{0, "ann", "secret", 200, 1},
			{59 * time.Second, "ann", "secret", 200, 1},
			{59 * time.Second, "ann", "secret", 200, 1},
			{61 * time.Second, "ann", "secret", 200, 2},
			{0, "ann", "wrong", 401, 3},
			{0, "ann", "wrong", 401, 4},
			{0, "unknown", "wrong", 401, 5},
			{0, "unknown", "secret", 401, 6},
			{0, "unknown", "secret", 401, 7},
			{0, "ann", "secret", 200, 7},
		} {
			time.Sleep(tt.pause)
			if w := ask(t.Context(), a, "/read", tt.name, tt.password); w.Code != tt.code || hashes != tt.hashes {
				t.Errorf("request %d: got %d after %d hashes, want %d after %d", i, w.Code, hashes, tt.code, tt.hashes)
			}
		}
		if err := creds.Replace([]byte(userLine("ann", "admin", "secret", cheap) + "bearer x")); err != nil {
			t.Fatal(err)
		}
		if w := ask(t.Context(), a, "/read", "ann", "secret"); w.Code != http.StatusOK || hashes != 7 {
			t.Errorf("after a change elsewhere: got %d after %d hashes", w.Code, hashes)
		}
	})
}

// While the file changes all the time, a user who is in each version is never refused, and a user who is in none never
// gets in.
func TestCredentials_Replace_UnderLoad(t *testing.T) {
	ann := userLine("ann", "write", "secret", cheap)
	versions := []string{ann, ann + userLine("bob", "admin", "secret", cheap), "bearer old\n" + ann}
	a, creds := newGuarded(t, ann)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if w := ask(t.Context(), a, "/write", "ann", "secret"); w.Code != http.StatusOK {
					t.Errorf("ann: got %d %s", w.Code, w.Body)
				}
				if w := ask(t.Context(), a, "/read", "eve", "secret"); w.Code != http.StatusUnauthorized {
					t.Errorf("eve: got %d %s", w.Code, w.Body)
				}
			}
		})
	}
	for i := range 600 {
		if err := creds.Replace([]byte(versions[i%len(versions)])); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}
