package inproc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/inproc"
)

func start(t *testing.T, w *world, startID string) launch.Instance {
	t.Helper()
	i, err := w.Start(t.Context(), startID)
	if err != nil {
		t.Fatalf("start: got %v, want a worker", err)
	}
	return i
}

// Pids grow and are never used again, nor are ids.
func TestLauncher_Start_PIDsGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, http.NotFoundHandler())
	first := start(t, w, "s1")
	if first.PID != 1000 || first.ID != "w-0001" || first.Control != "http://w-0001.worker.inproc" {
		t.Errorf("first worker: got %+v, want pid 1000 and number 1", first)
	}
	if err := errors.Join(w.Kill(t.Context(), first.ID), w.Remove(t.Context(), first.ID)); err != nil {
		t.Fatalf("kill and remove: %v", err)
	}
	if second := start(t, w, "s1"); second.PID != 1001 || second.ID != "w-0002" {
		t.Errorf("second worker: got %+v, want pid 1001 and number 2", second)
	}
}

// A worker has a directory of its own from its start to its removal.
func TestLauncher_Remove_DeletesDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, http.NotFoundHandler())
	id := start(t, w, "s1").ID
	dir := w.worker(id).spec.Dir
	file := filepath.Join(dir, "replica.db")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatalf("write into the worker's directory: %v", err)
	}
	if err := w.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after death: got %v, want the file there", err)
	}
	if err := w.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after removal: got %v, want the directory gone", err)
	}
}

// While a large directory is deleted, others are listed, started and killed.
func TestLauncher_Remove_HoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, http.NotFoundHandler())
	id := start(t, w, "s1").ID
	if err := w.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	begun, goOn, removed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.SetRemoveAll(func(path string) error {
		close(begun)
		<-goOn
		return os.RemoveAll(path)
	})
	go func() { removed <- w.Remove(t.Context(), id) }()
	<-begun
	asked := make(chan []launch.Instance, 1)
	go func() {
		list, _ := w.List(t.Context())
		asked <- list
	}()
	select {
	case list := <-asked:
		if len(list) != 1 || list[0].Running {
			t.Errorf("during the start: got %+v, want the dead worker", list)
		}
	case <-time.After(time.Minute):
		t.Error("no list while a directory is deleted")
	}
	close(goOn)
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if list, err := w.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("afterwards: got %+v, %v; want none", list, err)
	}
}

// A worker that cannot be made leaves nothing behind, and the same start may be tried again.
func TestLauncher_Start_MakeFails(t *testing.T) {
	t.Parallel()
	dir, cause := t.TempDir(), errors.New("no disk")
	l := inproc.New(inproc.Config{
		Dir: dir, Run: "r1",
		Make: func(inproc.Spec) (inproc.Worker, error) { return nil, cause },
	})
	for range 2 {
		if _, err := l.Start(t.Context(), "s1"); !errors.Is(err, cause) {
			t.Errorf("start: got %v, want %v", err, cause)
		}
	}
	left, err := os.ReadDir(dir)
	list, listErr := l.List(t.Context())
	if len(left) > 0 || len(list) > 0 || err != nil || listErr != nil {
		t.Errorf("left behind: %v and %v (errors %v, %v)", left, list, err, listErr)
	}
}

// victim is a worker that notes in which order its end comes.
type victim struct {
	worker
	life       chan context.Context
	ctxAtKill  chan error
	killAtDone chan bool
}

func (d *victim) Run(ctx context.Context) error {
	d.life <- ctx
	<-ctx.Done()
	d.killAtDone <- len(d.ctxAtKill) == 1
	return nil
}

func (d *victim) Kill() { d.ctxAtKill <- (<-d.life).Err() }

// A kill cuts the worker off before its goroutines learn of it, so that they cannot say goodbye.
func TestLauncher_Kill_CutsOffFirst(t *testing.T) {
	t.Parallel()
	d := &victim{life: make(chan context.Context, 1), ctxAtKill: make(chan error, 1), killAtDone: make(chan bool, 1)}
	l := inproc.New(inproc.Config{
		Dir:  t.TempDir(),
		Make: func(inproc.Spec) (inproc.Worker, error) { return d, nil },
	})
	i, err := l.Start(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if !<-d.killAtDone {
		t.Error("the context ended before the worker was cut off")
	}
	if err := <-d.ctxAtKill; err != nil {
		t.Errorf("the context when the worker was cut off: got %v, want it alive", err)
	}
}

// stuck is a worker one goroutine of which does not end.
type stuck struct {
	worker
	release chan struct{}
}

func (s *stuck) Run(context.Context) error { <-s.release; return nil }
func (s *stuck) Kill()                     {}

// A kill does not claim that a worker is dead while a goroutine of it is left.
func TestLauncher_Kill_StuckIsNotDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := inproc.New(inproc.Config{
			Dir:  t.TempDir(),
			Make: func(inproc.Spec) (inproc.Worker, error) { return &stuck{release: release}, nil },
		})
		i, err := l.Start(t.Context(), "s1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Kill(ctx, i.ID); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("kill: got %v, want %v", err, launch.ErrUnavailable)
		}
		if list, err := l.List(t.Context()); err != nil || !list[0].Running {
			t.Errorf("got %+v (error %v), want it listed as running", list, err)
		}
		close(release)
		if err := l.Kill(t.Context(), i.ID); err != nil {
			t.Errorf("kill again: got %v, want nil", err)
		}
	})
}

// request sends one request to a worker's control API through the launcher's transport.
func request(t *testing.T, w *world, url, body string) (int, string, error) {
	t.Helper()
	client := &http.Client{Transport: w.Transport()}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	read, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header.Get("X-Path") + " " + string(read), err
}

// An HTTP client reaches the control API of a running worker, and nothing else.
func TestTransport_RoundTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Path", r.Host+r.RequestURI)
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Path", "too late")
		_, _ = w.Write(body)
	}))
	i := start(t, w, "s1")
	status, got, err := request(t, w, i.Control+"/role?x=1", "master")
	if want := "w-0001.worker.inproc/role?x=1 master"; status != http.StatusAccepted || got != want || err != nil {
		t.Errorf("got %d %q and error %v, want %d %q", status, got, err, http.StatusAccepted, want)
	}
	_, _, err = request(t, w, "http://w-0099.worker.inproc/", "")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("unknown worker: got %v, want %v", err, syscall.ECONNREFUSED)
	}
	if _, _, err = request(t, w, "http://example.com/", ""); err == nil {
		t.Error("another host: got nil, want an error")
	}
	if err = w.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err = request(t, w, i.Control, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("killed worker: got %v, want %v", err, syscall.ECONNREFUSED)
	}
}

// A kill resets the request under way and ends its handler's context; the worker counts as dead only after the handler
// has returned.
func TestTransport_KillDuringRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		handlerDone := false
		w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
			<-time.After(time.Minute) // the bubble's clock: it lingers
			handlerDone = true
		}))
		i := start(t, w, "s1")
		failed := make(chan error, 1)
		go func() {
			_, _, err := request(t, w, i.Control, "")
			failed <- err
		}()
		<-entered
		if err := w.Kill(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		if !handlerDone {
			t.Error("Kill returned while a handler was running")
		}
		if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("request under way: got %v, want %v", err, syscall.ECONNRESET)
		}
	})
}

// A client that gives up gets its context's error immediately.
func TestTransport_ClientGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	i := start(t, w, "s1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.Control, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.Transport().RoundTrip(r)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
	}
	if err == nil {
		_ = answer.Body.Close()
	}
}

// Ids of launchers with different run names differ.
func TestLauncher_RunIsPartOfID(t *testing.T) {
	t.Parallel()
	made := make(chan inproc.Spec, 1)
	l := inproc.New(inproc.Config{Dir: t.TempDir(), Run: "k3f", Make: func(s inproc.Spec) (inproc.Worker, error) {
		made <- s
		return &worker{exit: make(chan int), killed: make(chan struct{})}, nil
	}})
	i, err := l.Start(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	want := dbaas.WorkerID("w-k3f-0001")
	if s := <-made; i.ID != want || s.ID != want || filepath.Base(s.Dir) != string(want) {
		t.Errorf("got %s and %+v, want id %s", i.ID, s, want)
	}
	if err := l.Kill(t.Context(), i.ID); err != nil {
		t.Error(err)
	}
}
