package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wait"
	"rideshare/persdb/client"
	"rideshare/persdb/server"
)

// instance is one of several stores on one log.
type instance struct {
	failing // what a test does not use has no error.

	name  string
	group *group
	err   error         // of Commit, if the instance is active
	takes time.Duration // the time of a Commit
	full  bool          // it cannot take over
}

// group knows which of its instances is active, and how often each was asked.
type group struct {
	mu     sync.Mutex
	active string
	asked  []string
	stay   bool // nobody takes over
}

func (g *group) ask(what, name string) (active bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, what+" "+name)
	return g.active == name
}

func (g *group) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.asked, want) {
		t.Errorf("got %q, want %q", g.asked, want)
	}
	g.asked = nil
}

func (i *instance) Commit(ctx context.Context, _ dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	if !i.group.ask("commit", i.name) {
		return dbaas.Commit{}, dbaas.ErrNotActive
	}
	wait.For(ctx, i.takes)
	return dbaas.Commit{Results: make([]dbaas.OperationResult, len(ops))}, i.err
}

func (i *instance) TakeOver(context.Context) error {
	i.group.ask("take over", i.name)
	if i.full {
		return dbaas.Errorf(dbaas.CodeUnavailable, "no room for what another one has stored")
	}
	i.group.mu.Lock()
	defer i.group.mu.Unlock()
	if i.group.stay {
		return dbaas.ErrNotActive
	}
	i.group.active = i.name
	return nil
}

func (i *instance) handler() http.Handler { return server.New(i, slog.New(slog.DiscardHandler)) }

// among returns a client of servers in memory.
func among(t *testing.T, cfg client.Config, h hosts) *client.Client {
	t.Helper()
	cfg.Timeout, cfg.HTTP = time.Hour, &http.Client{Transport: h}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoInstances returns two instances, of which none is active, and a client of both.
func twoInstances(t *testing.T) (g *group, a, b *instance, c *client.Client) {
	t.Helper()
	g = &group{}
	a, b = &instance{name: "a", group: g}, &instance{name: "b", group: g}
	return g, a, b, among(t, client.Config{URL: "http://a,http://b"}, hosts{"a": a.handler(), "b": b.handler()})
}

func commit(t *testing.T, c *client.Client) error {
	t.Helper()
	_, err := c.Commit(t.Context(), dbaas.Leadership{Epoch: 1}, []dbaas.Operation{storetest.Op(1, "SELECT 1")})
	return err
}

// The client finds the active instance, stays with it, and makes one active only if none is. A refusal that is final is
// not taken elsewhere, nor is an unknown outcome that an instance knows of.
func TestClient_Instances_FindsTheActiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, b, c := twoInstances(t)
		g.active = "b"
		for range 2 {
			if err := commit(t, c); err != nil {
				t.Fatal(err)
			}
		}
		g.wantAsked(t, "commit a", "commit b", "commit b")
		g.active = ""
		if err := commit(t, c); err != nil {
			t.Fatal(err)
		}
		g.wantAsked(t, "commit b", "commit a", "take over a", "commit a")
		g.active, b.err = "b", dbaas.ErrStaleEpoch
		for _, code := range []dbaas.Code{dbaas.CodeStaleEpoch, dbaas.CodeUnknown, dbaas.CodeUnavailable, dbaas.CodeFull} {
			b.err = dbaas.Errorf(code, "as it is")
			if err := commit(t, c); dbaas.CodeOf(err) != code {
				t.Errorf("got %v, want code %q", err, code)
			}
		}
		g.wantAsked(t, "commit a", "commit b", "commit b", "commit b", "commit a", "commit b")
	})
}

// If no instance becomes active, the commit was not done. An observer never asks for it.
func TestClient_Instances_NoneActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a, _, c := twoInstances(t)
		g.stay = true
		if err := commit(t, c); dbaas.CodeOf(err) != dbaas.CodeUnavailable || dbaas.ReasonOf(err) != "" {
			t.Errorf("got %v, want code %q and no reason", err, dbaas.CodeUnavailable)
		}
		g.wantAsked(t, "commit a", "commit b", "take over a", "take over b")
		observer := among(t, client.Config{URL: "http://a", Observe: true}, hosts{"a": a.handler()})
		if err := commit(t, observer); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("got %v, want code %q", err, dbaas.CodeUnavailable)
		}
		g.wantAsked(t, "commit a")
	})
}

// An instance that cannot take over is left for the next one.
func TestClient_Instances_OneCannotTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a, _, c := twoInstances(t)
		a.full = true
		if err := commit(t, c); err != nil {
			t.Fatal(err)
		}
		g.wantAsked(t, "commit a", "commit b", "take over a", "take over b", "commit b")
	})
}

// A single instance that is not active is made so.
func TestClient_OneInstance_TakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{}
		a := &instance{name: "a", group: g}
		if err := commit(t, among(t, client.Config{URL: "http://a"}, hosts{"a": a.handler()})); err != nil {
			t.Fatal(err)
		}
		g.wantAsked(t, "commit a", "take over a", "commit a")
	})
}

// A commit whose answer is lost is repeated at the other instance. Unless that one has done it, the outcome is unknown.
func TestClient_Instances_AnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{}
		b := &instance{name: "b", group: g}
		both := client.Config{URL: "http://a,http://b"}
		servers := hosts{"a": nil, "b": b.handler()}
		if err := commit(t, among(t, both, servers)); err != nil {
			t.Fatal(err)
		}
		g.wantAsked(t, "commit b", "take over b", "commit b")
		b.err = dbaas.ErrStaleEpoch
		if err := commit(t, among(t, both, servers)); dbaas.CodeOf(err) != dbaas.CodeUnknown {
			t.Errorf("got %v, want code %q: the first attempt may have been done", err, dbaas.CodeUnknown)
		}
		err := commit(t, among(t, client.Config{URL: "http://a,http://off"}, servers))
		if dbaas.CodeOf(err) != dbaas.CodeUnknown || errors.Is(err, dbaas.ErrUnreachable) {
			t.Errorf("got %v, want code %q, and nothing that says that it was not sent", err, dbaas.CodeUnknown)
		}
	})
}

// A call that ends before another instance can be asked leaves its silent instance all the same: the next call begins with the
// other one.
func TestClient_Instances_ShortCallsLeaveTheSilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &instance{name: "b", group: &group{active: "b"}}
		c := among(t, client.Config{URL: "http://silent,http://b"}, hosts{"b": b.handler()})
		short := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := c.Head(ctx)
			return err
		}
		if err := short(); err == nil {
			t.Error("the silent instance has answered")
		}
		if err := short(); err != nil {
			t.Errorf("the second call: %v", err)
		}
	})
}

// An instance that was silent is not asked again at once, if another one has answered: while none is active, calls do not wait
// for it. Later it is asked again.
func TestClient_Instances_SilentIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{stay: true}
		b := &instance{name: "b", group: g}
		c := among(t, client.Config{URL: "http://silent,http://b"}, hosts{"b": b.handler()})
		for n, wanted := range []bool{true, false, true} {
			began := time.Now()
			if err := commit(t, c); dbaas.CodeOf(err) != dbaas.CodeUnavailable && dbaas.CodeOf(err) != dbaas.CodeUnknown {
				t.Errorf("commit %d: got %v, want that none is active", n, err)
			}
			if asked := time.Since(began) >= time.Second; asked != wanted {
				t.Errorf("commit %d took %v: asked the silent instance %t, want %t", n, time.Since(began), asked, wanted)
			}
			time.Sleep(time.Duration(n) * 2 * time.Second)
		}
	})
}

// hosts are servers in memory. A server without a handler closes the connection in place of an answer. A request to a name
// that is not there gets no answer, and off refuses connections.
type hosts map[string]http.Handler

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "off" {
		httptrace.ContextClientTrace(r.Context()).GetConn("off")
		return nil, syscall.ECONNREFUSED
	}
	to, there := h[r.URL.Host]
	if !there {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if to == nil {
		return nil, io.ErrUnexpectedEOF
	}
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// An instance that is paused answers no probe, and is left within two seconds. An instance that works for long is waited
// for.
func TestClient_Instances_PausedIsLeft_SlowIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{active: "slow"}
		slow := &instance{name: "slow", group: g, takes: time.Minute}
		c := among(t, client.Config{URL: "http://paused,http://slow"}, hosts{"slow": slow.handler()})
		began := time.Now()
		if err := commit(t, c); err != nil {
			t.Fatal(err)
		}
		if left := time.Since(began) - slow.takes; left > 2*time.Second {
			t.Errorf("the paused instance was left after %v", left)
		}
		g.wantAsked(t, "commit slow")
	})
}

// An instance that is paused after a snapshot or a backup was asked for, and before that begins, is left as well.
func TestClient_Instances_PausedBeforeTheAnswerIsLeft(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) (io.Closer, error){
		"Snapshot": func(ctx context.Context, c *client.Client) (io.Closer, error) {
			s, err := c.Snapshot(ctx)
			if err != nil {
				return nil, err
			}
			return s.Body, nil
		},
		"Backup": func(ctx context.Context, c *client.Client) (io.Closer, error) {
			b, err := c.Backup(ctx, dbaas.BackupForm{})
			if err != nil {
				return nil, err
			}
			return b.Body, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				pauses := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) > 1 {
						<-r.Context().Done()
					}
					_, _ = w.Write([]byte("{}"))
				})
				answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/livez" {
						_, _ = w.Write([]byte("{}"))
					} else {
						w.Header().Set(client.HeaderSeq, "1")
						w.Header().Set(client.HeaderEpoch, "1")
						w.Header().Set(client.HeaderCluster, dbaas.ClusterID{1}.String())
					}
				})
				began := time.Now()
				body, err := call(t.Context(), among(t, client.Config{URL: "http://pauses,http://answers"}, hosts{"pauses": pauses, "answers": answers}))
				if err != nil {
					t.Fatal(err)
				}
				if left := time.Since(began); left > 2*time.Second {
					t.Errorf("the paused instance was left after %v", left)
				}
				if err = body.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
