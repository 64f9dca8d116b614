package process_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"rideshare/orchestrator/launch/process"
)

// zombies counts dead children of this process that were not waited for.
func zombies(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		// pid (name) state ppid: the name may hold anything.
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// Starts and kills leave no open file, no goroutine and no zombie. Not parallel: it counts
// what the whole process has open.
func TestLauncher_ManyStarts_LeakNothing(t *testing.T) {
	w := newWorld(t, roleWorker, process.Config{})
	cycle := func(n int) {
		i, err := w.Launcher.Start(t.Context(), strconv.Itoa(n)) // not waited for: most die while they start
		if err != nil {
			t.Fatalf("start %d: %v", n, err)
		}
		if err := errors.Join(w.Kill(t.Context(), i.ID), w.Remove(t.Context(), i.ID)); err != nil {
			t.Fatalf("kill and remove %d: %v", n, err)
		}
	}
	cycle(0) // what the runtime opens once is open now
	settled := goleak.IgnoreCurrent()
	before := len(files())
	for n := range 50 {
		cycle(n)
	}
	eventually(t, func() error { return goleak.Find(settled) }) // directories are removed in the background
	if after := files(); len(after) > before {
		t.Errorf("open files: got %d, want %d as before: %v", len(after), before, after)
	}
	if n := zombies(t); n > 0 {
		t.Errorf("got %d zombies, want none", n)
	}
}

// A worker has only the files open that were handed to it, and passes none on: no pipe of a sibling, which would then
// never end, and no listener.
func TestLauncher_Start_InheritsOnlyItsOwn(t *testing.T) {
	w := newWorld(t, roleWorker, process.Config{})
	for n := range 5 {
		start(t, w, strconv.Itoa(n))
	}
	s := get(t, start(t, w, "last").Control)
	for _, file := range s.Files {
		number, target, _ := strings.Cut(file, " ")
		fd, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		handedOver := strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")
		if fd > 4 && handedOver {
			t.Errorf("open in the worker: %s; all: %v", file, s.Files)
		}
	}
	if len(s.Visible) > 0 {
		t.Errorf("a grandchild would see %v, want none", s.Visible)
	}
}

// onThreadThatEnds runs f on a thread that ends afterwards, and returns its number.
func onThreadThatEnds(f func()) int {
	thread := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		id := syscall.Gettid()
		if id == os.Getpid() { // the first thread never ends; it is held here, so the next try gets another
			id = onThreadThatEnds(f)
			runtime.UnlockOSThread()
		} else {
			f()
		}
		thread <- id
	}()
	return <-thread
}

// The thread that asks for a start may end without ending the worker. The kernel ties a child to the thread that starts
// it, so that thread must be a different one.
func TestLauncher_Start_CallersThreadEnds(t *testing.T) {
	w := newWorld(t, roleWorker, process.Config{})
	id := onThreadThatEnds(func() {
		if _, err := w.Start(t.Context(), "s1"); err != nil {
			t.Errorf("start: %v", err)
		}
	})
	eventually(t, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id)); err == nil {
			return errors.New("the thread has not ended")
		}
		return nil
	})
	list, err := w.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Running {
		t.Fatalf("got %+v and error %v, want one running worker", list, err)
	}
	if got := get(t, list[0].Control).PID; got != list[0].PID {
		t.Errorf("got an answer of process %d, want %d", got, list[0].PID)
	}
}
