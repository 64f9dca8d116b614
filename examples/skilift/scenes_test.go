package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
	"rideshare/internal/testkit/uptest"
)

// Every scene passes on a right system, at a hundredth of its size or less, and writes its reports. The scenes share the
// system, so that most of them find rides at other resorts.
func TestScenes_Pass(t *testing.T) {
	database := uptest.Start(t)
	i := newInstance(t, database, nil)
	for name, scale := range map[string]string{
		"ski-180k": "0.01", "ski-200k": "0.01", "ski-breaker": "0.002", "ski-kill": "0.01", "ski-queryable": "0.01", "ski-read": "0.004", "ski-sweep": "0.01",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			page, result := filepath.Join(dir, "ski.html"), filepath.Join(dir, "ski.json")
			var stdout, stderr bytes.Buffer
			args := []string{"load", name, "--database", database, "--service", i.url, "--scale", scale, "--html", page, "--json", result}
			if name == "ski-200k" {
				args = append(args, "--admission", `{"inflight":4000}`, "--days", "1,2")
			}
			if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
				t.Fatalf("got exit code %d\n%s%s", code, &stdout, &stderr)
			}
			t.Logf("%s", &stdout)
			text, err := os.ReadFile(page)
			if err != nil || strings.Index(string(text), "Verdict") > strings.Index(string(text), "over time") {
				t.Errorf("the page has no verdict before the figures: %v", err)
			}
			text, err = os.ReadFile(result)
			if err != nil {
				t.Fatal(err)
			}
			var got scene.Result
			if err = json.Unmarshal(text, &got); err != nil || !got.Check.OK || len(got.Loads) == 0 || got.Check.Acknowledged["ride"] == 0 {
				t.Errorf("got %s, %v", text, err)
			}
			if name == "ski-kill" && (len(got.Events) != 2 || got.Check.UnknownThere+got.Check.UnknownMissing > 0) {
				t.Errorf("got %+v, want master and slave killed, and nothing unknown", got)
			}
		})
	}
}

// playOn plays a small scene on a service.
func playOn(t *testing.T, database, scene string, service http.HandlerFunc) (code int, said string) {
	t.Helper()
	server := httptest.NewServer(service)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	args := append(strings.Fields("load "+scene), "--database", database, "--service", server.URL, "--scale", "0.001")
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String()
}

// A scene fails on a service that loses rides, stores them twice, or answers a query wrongly.
func TestScenes_FindAWrongService(t *testing.T) {
	database := uptest.Start(t)
	i := newInstance(t, database, nil)
	for name, wrong := range map[string]func(http.ResponseWriter, *http.Request){
		"acknowledged and missing": func(w http.ResponseWriter, _ *http.Request) {
			_ = web.Answer(w, http.StatusCreated, db.Answer{}, object{})
		},
		"there more than once": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			for _, to := range []http.ResponseWriter{httptest.NewRecorder(), w} {
				again := r.Clone(r.Context())
				again.Body = io.NopCloser(bytes.NewReader(body))
				i.ServeHTTP(to, again)
			}
		},
	} {
		var posts atomic.Int64
		code, said := playOn(t, database, "ski-180k", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && posts.Add(1) == 20 {
				wrong(w, r)
				return
			}
			i.ServeHTTP(w, r)
		})
		if code != 1 || !strings.Contains(said, name+": 1") {
			t.Errorf("got exit code %d, want 1 and %q\n%s", code, name, said)
		}
	}
	for path, answer := range map[string]object{"/seasons": {"seasons": []int{}}, "/verticals": {"days": []int{}}, "/rides": {"rides": 0}} {
		code, said := playOn(t, database, "ski-180k", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path) {
				_ = web.Answer(w, http.StatusOK, db.Answer{}, answer)
				return
			}
			i.ServeHTTP(w, r)
		})
		if code != 1 || !strings.Contains(said, path+": got 200") {
			t.Errorf("wrong answers: got exit code %d, want 1 and those of %s\n%s", code, path, said)
		}
	}
	for _, args := range []string{"load", "load ski-1", "load ski-200k --threads 1", "load ski-breaker --deadline 0s", "load ski-200k --scale 0", "load ski-200k --auth-file /does/not/exist"} {
		if code := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); code != exitUsage {
			t.Errorf("%s: got exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// A scene counts refusals by their reason, or by the status if there is none.
func TestScenes_CountRefusalsByReason(t *testing.T) {
	database := uptest.Start(t)
	newInstance(t, database, nil) // It makes the tables.
	_, said := playOn(t, database, "ski-180k", func(w http.ResponseWriter, r *http.Request) {
		if strings.ContainsAny(r.URL.Path[len(r.URL.Path)-1:], "02468") {
			w.Header().Set("X-Reason", "user-rate")
		}
		_ = web.Answer(w, http.StatusServiceUnavailable, db.Answer{}, object{})
	})
	if !strings.Contains(said, "failed map[503:") || !strings.Contains(said, " user-rate:") {
		t.Errorf("got %s, want refusals by 503 and by user-rate", said)
	}
}

// ski-breaker fails on a service that does not answer in its deadline.
func TestScenes_Breaker_FindsALateAnswer(t *testing.T) {
	database := uptest.Start(t)
	i := newInstance(t, database, nil)
	var posts atomic.Int64
	code, said := playOn(t, database, "ski-breaker --deadline 1ms", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) == 20 {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done() // The client has given up.
			return
		}
		i.ServeHTTP(w, r)
	})
	if code != 1 || !strings.Contains(said, "ride: got") || !strings.Contains(said, "deadline exceeded") {
		t.Errorf("got exit code %d, want 1 and that a ride was not answered in time\n%s", code, said)
	}
}
