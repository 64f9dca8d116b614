package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/client"
)

// What deploy/stack.sh gives persdb for requests of 64 MiB, in MiB.
const (
	persdbMemory = 1024
	persdbGo     = 256
)

// startPersdb starts `rideshare persdb` alone, in the memory of its container, and returns its process and a client.
func startPersdb(t *testing.T) (pid int, c *client.Client) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), suite.binary, "persdb", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+strconv.Itoa(persdbGo)+"MiB", "SQL_WRITE_TIME=4s", "SQL_OPERATION_TIME=4s") // as long as possible
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself.
		_ = cmd.Wait()         // the error says that it was killed.
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct{ Msg, Addr string }
		if err = json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("log line %q: %v", lines.Text(), err)
		}
		if line.Msg != "part started" {
			continue
		}
		if c, err = client.New(client.Config{URL: "http://" + line.Addr, Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid, c
	}
	t.Fatal("persdb did not come up")
	return 0, nil
}

// peak returns the most memory that a process has had, in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in\n%s", status)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// The largest allowed writes, each fetched by three slaves concurrently, fit into the memory that persdb has in its
// container.
func TestPersdb_LargestWrites_FitItsMemory(t *testing.T) {
	pid, c := startPersdb(t)
	epoch := storetest.Claim(t, c)
	for n := range 2 {
		write := storetest.Op(n, "INSERT INTO users VALUES("+strconv.Itoa(n)+", ?)")
		write.Statements[0].Args = []dbaas.Value{dbaas.Text(strings.Repeat("x", 60<<20))}
		if out := storetest.Commit(t, c, epoch, write); !storetest.Entry(t, out).ChangesOmitted {
			t.Fatalf("the entry came back with the answer: %+v", out.Results)
		}
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				page, err := c.Log(t.Context(), dbaas.Seq(n), 0)
				if err != nil || len(page.Entries) != 1 || page.Entries[0].Size() < 60<<20 {
					t.Errorf("%d entries, %v", len(page.Entries), err)
				}
			})
		}
		readers.Wait()
	}
	fitsMemory(t, pid)
}

func fitsMemory(t *testing.T, pid int) {
	t.Helper()
	if got := peak(t, pid); got > persdbMemory {
		t.Errorf("persdb took %d MiB, its container has %d", got, persdbMemory)
	} else {
		t.Logf("persdb took %d MiB of %d", got, persdbMemory)
	}
}

// A small request whose statements each return nearly as much as they may is refused before their results fill the memory.
func TestPersdb_ManyLargeResults_FitItsMemory(t *testing.T) {
	pid, c := startPersdb(t)
	epoch := storetest.Claim(t, c)
	results := storetest.Commit(t, c, epoch, storetest.Op(0, slices.Repeat([]string{"SELECT zeroblob(30000000)"}, 60)...)).Results
	if got := results[0].Code; got != dbaas.CodeTooLarge {
		t.Errorf("got code %q, want %q", got, dbaas.CodeTooLarge)
	}
	fitsMemory(t, pid)
}
