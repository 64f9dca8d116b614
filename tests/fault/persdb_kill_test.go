// Package fault breaks whole processes while they work and checks what must hold.
package fault_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // an independent way to read the same file

	"rideshare/internal/dbaas"
	"rideshare/internal/lifeline"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
	"rideshare/persdb/client"
	"rideshare/persdb/commitlog"
)

// life is one process of `rideshare persdb`.
type life struct {
	cmd    *exec.Cmd
	line   io.Closer // if it is closed, the process takes its parent for dead
	client *client.Client
}

func start(t *testing.T, dir string, more ...string) *life {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	held, line, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"persdb", "--listen", "127.0.0.1:0", "--data", dir}, more...)...)
	cmd.ExtraFiles = []*os.File{held}
	cmd.Env = append(os.Environ(), lifeline.EnvLine+"=3") // the first of ExtraFiles
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(cmd.Start(), held.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: "http://" + listening(t, out), Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return &life{cmd: cmd, line: line, client: c}
}

// listening returns the address that the process logs. It goes on reading the log, so that the process never blocks on
// a full pipe.
func listening(t *testing.T, log io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Msg, Addr string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("log line %q: %v", lines.Text(), err)
		}
		if line.Msg == "part started" {
			go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
			return line.Addr
		}
	}
	t.Fatalf("persdb did not come up: %v", lines.Err())
	return ""
}

// kill ends the process with SIGKILL.
func (l *life) kill(t *testing.T) {
	t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = l.cmd.Wait() // the error says that the process was killed
	_ = l.line.Close()
	if err := l.client.Close(); err != nil {
		t.Error(err)
	}
}

// writer sends batches, each until it is answered, and counts what was acknowledged.
type writer struct {
	number int
	client *atomic.Pointer[client.Client]
	epoch  *atomic.Uint64
	seqs   map[dbaas.OpID]dbaas.Seq // of acknowledged operations
}

// operation inserts a row and increments a counter. The counter shows a second execution even if the rows do not.
func (w *writer) operation() dbaas.Operation {
	o := dbaas.Operation{
		ID: dbaas.NewOpID(time.Now()), Atomic: true,
		Statements: []dbaas.Statement{
			{SQL: "INSERT INTO users(username, password) VALUES(hex(randomblob(8)), ?)", Args: []dbaas.Value{dbaas.Integer(int64(w.number))}},
			{SQL: "INSERT INTO apicount VALUES(?, 1) ON CONFLICT DO UPDATE SET count=count+1", Args: []dbaas.Value{dbaas.Text(fmt.Sprint(w.number))}},
		},
	}
	o.Fingerprint = wire.FingerprintOf(o.Atomic, o.Statements)
	return o
}

func (w *writer) run(ctx context.Context, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		batch := make([]dbaas.Operation, 1+len(w.seqs)%3)
		for i := range batch {
			batch[i] = w.operation()
		}
		if err := w.send(ctx, batch); err != nil {
			return err
		}
	}
}

// send repeats the same batch until it is answered.
func (w *writer) send(ctx context.Context, batch []dbaas.Operation) error {
	for {
		out, err := w.client.Load().Commit(ctx, dbaas.Leadership{Epoch: dbaas.Epoch(w.epoch.Load())}, batch)
		switch dbaas.CodeOf(err) { //nolint:exhaustive // all other codes fail the test.
		case dbaas.CodeOK:
			for _, r := range out.Results {
				if r.Code != dbaas.CodeOK || len(r.Statements) != 2 || r.Statements[1].Code != dbaas.CodeOK {
					return fmt.Errorf("result %+v", r)
				}
				w.seqs[r.ID] = r.Seq
			}
			return nil
		case dbaas.CodeUnavailable, dbaas.CodeUnknown, dbaas.CodeStaleEpoch:
			if ended := pause(ctx, time.Millisecond); ended != nil {
				return ended
			}
		default:
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// persdb is killed at random moments, a hundred times, while writers write: no acknowledged operation is lost, none
// has its effect twice, the log has no gap, and the archive has the same entries at the end.
func TestPersdb_KilledAHundredTimes_NothingLostNothingTwice(t *testing.T) {
	t.Parallel()
	kills, seed := 100, rand.Uint64()
	if testing.Short() {
		kills = 20
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir, kept := t.TempDir(), t.TempDir()
	archived := []string{"--archive", "file://" + kept, "--archive-every", "10ms"}
	var current atomic.Pointer[client.Client]
	var epoch atomic.Uint64
	now := start(t, dir, archived...)
	current.Store(now.client)
	epoch.Store(uint64(storetest.Claim(t, now.client)))
	replica := storetest.NewReplica(t, now.client)

	// The archive begins with a snapshot. The killed processes may not have written it.
	testenv.Eventually(t, healLimit, func() error { return archivedUpTo(t, kept, now.client) })
	stop := make(chan struct{})
	writers := make([]*writer, 4)
	var wg sync.WaitGroup
	for i := range writers {
		w := &writer{number: i, client: &current, epoch: &epoch, seqs: map[dbaas.OpID]dbaas.Seq{}}
		writers[i] = w
		wg.Go(func() {
			if err := w.run(t.Context(), stop); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	for i := range kills {
		if err := pause(t.Context(), time.Duration(random.IntN(50_000))*time.Microsecond); err != nil {
			t.Fatal(err)
		}
		now.kill(t)
		now = start(t, dir, archived...)
		current.Store(now.client)
		if i%5 == 0 {
			epoch.Store(uint64(storetest.Claim(t, now.client)))
		}
	}
	close(stop)
	wg.Wait()
	replica.Follow(t, now.client)
	testenv.Eventually(t, healLimit, func() error { return archivedUpTo(t, kept, now.client) })
	now.kill(t)
	check(t, dir, writers)
	checkArchive(t, dir, kept)
}

// check reads the files that the last process left, through database/sql.
func check(t *testing.T, dir string, writers []*writer) {
	t.Helper()
	path := filepath.Join(dir, commitlog.FileName)
	storetest.Witness(t, path)
	found := logged(t, filepath.Join(dir, commitlog.LogFileName))
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	acknowledged := 0
	for _, w := range writers {
		acknowledged += len(w.seqs)
		for id, seq := range w.seqs {
			if found[id] != seq {
				t.Errorf("operation %v was acknowledged at %d, the log has it at %d", id, seq, found[id])
			}
		}
		var users, counted int
		err := db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM users WHERE password=?1), (SELECT count FROM apicount WHERE service_name=?1)",
			fmt.Sprint(w.number)).Scan(&users, &counted)
		if err != nil || users != len(w.seqs) || counted != len(w.seqs) {
			t.Errorf("writer %d: %d rows, counted %d, %v; %d operations were acknowledged", w.number, users, counted, err, len(w.seqs))
		}
	}
	if len(found) != acknowledged {
		t.Errorf("the log has %d operations, %d were acknowledged", len(found), acknowledged)
	}
}

// logged reads the operations of the log. It fails the test if the log has a gap or an operation is in two entries.
func logged(t *testing.T, log string) map[dbaas.OpID]dbaas.Seq {
	t.Helper()
	storetest.WitnessLog(t, log)
	db, err := sql.Open("sqlite", "file:"+log+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT seq, ops FROM rs_log ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	found, next := map[dbaas.OpID]dbaas.Seq{}, dbaas.Seq(1)
	for ; rows.Next(); next++ {
		var seq dbaas.Seq
		var ops []byte
		if err := rows.Scan(&seq, &ops); err != nil {
			t.Fatal(err)
		}
		if seq != next {
			t.Fatalf("the log has %d where %d is next", seq, next)
		}
		records, err := wire.DecodeRecords(ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if before, ok := found[r.Result.ID]; ok {
				t.Errorf("operation %v is in entries %d and %d", r.Result.ID, before, seq)
			}
			found[r.Result.ID] = seq
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations in %d entries", len(found), next-1)
	return found
}
