package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rideshare/internal/testkit/archivetest"
)

// rideshare backup writes an SQLite file, and prints its position, size and SHA-256.
func TestBackup_Command(t *testing.T) {
	sys := shared(t)
	dir := t.TempDir()
	file, report := filepath.Join(dir, "backup.db"), filepath.Join(dir, "report.json")
	backup := func(args ...string) ended {
		return runBinary(t, nil, append([]string{"backup", "--orchestrator", sys.Orchestrator}, args...)...)
	}
	backup(file, "--json", report).expect(t, 0, "SHA-256 ")
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "SQLite format 3\x00") {
		t.Fatalf("got %.20q, %v, want an SQLite file", text, err)
	}
	var taken struct {
		Bytes  int
		SHA256 string
	}
	if said, err := os.ReadFile(report); err != nil || json.Unmarshal(said, &taken) != nil {
		t.Fatalf("got the report %s, %v", said, err)
	}
	if sum := sha256.Sum256(text); taken.Bytes != len(text) || taken.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the report says %+v, the file has %d bytes and %x", taken, len(text), sum)
	}
	backup(file).expect(t, 2, "--force replaces it")
	backup(file, "--force").expect(t, 0, "position ")
	if got := backup("-"); got.code != 0 || !strings.HasPrefix(got.stdout, "SQLite format 3\x00") {
		t.Errorf("to standard output: got exit code %d, %.20q", got.code, got.stdout)
	}
	backup(filepath.Join(dir, "none", "backup.db")).expect(t, 1, "no such file")
}

// archived starts a system with an archive.
func archived(t *testing.T) (sys *system, dir, url string) {
	t.Helper()
	dir = t.TempDir()
	url = "file://" + filepath.Join(dir, "archive")
	return start(t, setup{owned: true, flags: []string{"--archive", url}}), dir, url
}

// archivedUpTo waits until the archive has the position seq or a later one: the services may write their counts of requests at
// any time. env has the bucket's keys.
func archivedUpTo(t *testing.T, url, seq string, env ...string) {
	t.Helper()
	eventually(t, againLimit, func() error {
		file := filepath.Join(t.TempDir(), "list.json")
		var all []struct{ Ranges []struct{ First, Last int } }
		if got := runBinary(t, env, "archive", "list", url, "--json", file); got.code != 0 {
			return fmt.Errorf("list: %s", got.stderr)
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		wanted, numErr := strconv.Atoi(seq)
		if err = errors.Join(err, numErr); err != nil || len(all) != 1 || len(all[0].Ranges) == 0 || all[0].Ranges[0].Last < wanted {
			return fmt.Errorf("the archive has %+v, %w, want position %s", all, err, seq)
		}
		return nil
	})
}

// write writes a statement, and returns its answer.
func (s *system) write(t *testing.T, sql string, headers ...string) answer {
	t.Helper()
	return s.Post(t, s.db("/db/execute"), toJSON([]string{sql}), headers...).expect(t, http.StatusOK, anyBody)
}

// Every block of docs/BACKUP.md runs unchanged. The system that is started for the drill does not write to the archive.
func TestBackup_BlocksOfThePage_Run(t *testing.T) {
	sys, dir, url := archived(t)
	sys.PutUser(t, "ann")
	archivedUpTo(t, url, sys.write(t, "INSERT INTO users VALUES('bob', 'x')").Header.Get("X-Seq"))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "BACKUP.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err = os.Symlink(suite.binary, filepath.Join(bin, "rideshare")); err != nil {
		t.Fatal(err)
	}
	env := []string{"ARCHIVE_URL=" + url, "ORCHESTRATOR_URL=" + sys.Orchestrator, "PATH=" + bin + ":" + os.Getenv("PATH")}
	blocks := strings.Split(string(page), "\n```sh\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks, want 2", len(blocks))
	}
	for i, end := range []string{"", "users\n2\n"} {
		block, _, _ := strings.Cut(blocks[i], "\n```\n")
		// A block that fails must leave no system running.
		if code, out := runClient(t, "cd "+dir+"\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n"+block+"\n", env, "sh", "-eu"); code != 0 || !strings.HasSuffix(out, end) {
			t.Errorf("block %d: exit code %d, got %s, want it to end with %q", i, code, out, end)
		}
	}
	if list := runBinary(t, nil, "archive", "list", url); strings.Count("\n"+list.stdout, "\ncluster ") != 1 {
		t.Errorf("the archive has more than the cluster of the system: %s", list.stdout)
	}
	for _, folder := range []string{"from-backup", "newest", "earlier", "by-time"} {
		if _, err := os.Stat(filepath.Join(dir, folder, "persdb.db")); err != nil {
			t.Error(err)
		}
	}
}

// A dropped table is back after a restore of the position before the drop, with its rows and the stored answers. The new
// cluster names its parent, and a position of the old cluster is gone.
func TestRestore_DroppedTable_IsBack(t *testing.T) {
	sys, dir, url := archived(t)
	const insert, key = "INSERT INTO kept VALUES('row')", "Idempotency-Key"
	sys.write(t, "CREATE TABLE kept(x)")
	first := sys.write(t, insert, key, "first")
	before, old := first.Header.Get("X-Seq"), first.Header.Get("X-Cluster-Id")
	archivedUpTo(t, url, sys.write(t, "DROP TABLE kept").Header.Get("X-Seq"))
	restore := func(args ...string) ended {
		return runBinary(t, nil, append([]string{"restore", "--from", url, "--seq", before}, args...)...)
	}
	restore("--data", sys.dataDir()).expect(t, 2, "must be missing or empty")
	sys.Stop(t)
	if got := runBinary(t, nil, "archive", "cluster", sys.dataDir()); got.code != 0 || got.stdout != old+"\n" {
		t.Errorf("cluster: exit code %d, %s %s, want %s", got.code, got.stdout, got.stderr, old)
	}
	runBinary(t, nil, "archive", "cluster", dir).expect(t, 1, "a data folder has persdb.db and log.db")
	if err := os.Rename(sys.dataDir(), filepath.Join(dir, "was")); err != nil {
		t.Fatal(err)
	}
	restore("--data", sys.dataDir()).expect(t, 0, "")
	sys.Start(t)

	if again := sys.write(t, insert, key, "first"); again.Header.Get("X-Seq") != before || again.Header.Get("X-Cluster-Id") == old {
		t.Errorf("the repeated write: got %v, want the first answer, of position %s", again.Header, before)
	}
	if n := sys.QueryInt(t, "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
	gone := sys.Get(t, sys.db("/db/query?q=SELECT+1"), "X-Min-Seq", before, "X-Cluster-Id", old)
	gone.expect(t, http.StatusGone, anyBody)
	eventually(t, againLimit, func() error {
		if got := runBinary(t, nil, "archive", "list", url); got.code != 0 || !strings.Contains(got.stdout, "restored from position "+before+" of cluster "+old) {
			return fmt.Errorf("list: exit code %d, %s %s", got.code, got.stdout, got.stderr)
		}
		return nil
	})
}

// The archive can also be in a bucket: it is written, listed, verified and restored from there. None of that works with other
// keys.
func TestRestore_FromABucket(t *testing.T) {
	url, keys := archivetest.StartBucket(t)
	env, wrong := []string{"ARCHIVE_KEY_FILE=" + keys}, []string{"ARCHIVE_KEY_FILE=" + archivetest.WriteKeys(t, archivetest.AccessKey, "other")}
	sys := start(t, setup{owned: true, flags: []string{"--archive", url}, env: env})
	sys.write(t, "CREATE TABLE kept(x)")
	before := sys.write(t, "INSERT INTO kept VALUES('row')").Header.Get("X-Seq")
	archivedUpTo(t, url, sys.write(t, "DELETE FROM kept").Header.Get("X-Seq"), env...)
	dir := filepath.Join(t.TempDir(), "restored")
	for _, command := range [][]string{{"archive", "list", url}, {"archive", "verify", url}, {"restore", "--from", url, "--seq", before, "--data", dir}} {
		if got := runBinary(t, wrong, command...); got.code != 1 {
			t.Errorf("%v with other keys: got exit code %d, %s, want 1", command, got.code, got.stderr)
		}
		runBinary(t, env, command...).expect(t, 0, "")
	}
	sys.Stop(t)
	if err := errors.Join(os.RemoveAll(sys.dataDir()), os.Rename(dir, sys.dataDir())); err != nil {
		t.Fatal(err)
	}
	sys.Start(t)
	if n := sys.QueryInt(t, "SELECT count(*) FROM kept WHERE x='row'"); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}
