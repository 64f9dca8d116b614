package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rideshare/internal/bigfile"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
)

const (
	filePrefix   = "replica-"
	tempName     = filePrefix + "snapshot.tmp"
	dirMode      = 0o750
	copyBufBytes = 256 << 10
	// snapshotQuiet bounds the silence while a snapshot is fetched; the whole snapshot may take as long as it needs. It is as
	// long as the client of persdb waits for the start, since persdb serves few snapshots at a time.
	snapshotQuiet = 2 * time.Minute
)

// errSnapshot is returned for a snapshot that does not match its announced head or checksum.
var errSnapshot = errors.New("snapshot is not what was announced")

// clean creates dir and removes the files of an earlier process: only that process knew whether they are complete.
func clean(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make replica directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read replica directory: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filePrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove replica of an earlier life: %w", err)
		}
	}
	return nil
}

// install fetches a snapshot, checks it and opens it. Each generation has a new file name, so that readers of the
// previous file are not disturbed.
func (r *Replica) install(ctx context.Context, generation int) (*file, error) {
	started := time.Now()
	ctx, cancel := wait.UntilStalled(ctx, snapshotQuiet)
	defer cancel()
	temp := filepath.Join(r.config.Dir, tempName)
	defer func() { _ = os.Remove(temp) }() // after success the file no longer exists
	head, err := r.fetch(ctx, temp)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.config.Dir, fmt.Sprintf("%s%d.db", filePrefix, generation))
	if err = os.Rename(temp, path); err != nil {
		return nil, fmt.Errorf("name snapshot: %w", err)
	}
	f, err := openFile(path, head)
	if err != nil {
		removeFiles(path)
		return nil, err
	}
	r.furthest = 0
	f.limits, f.onStuck = r.config.Limits, r.config.OnStuck
	r.Stats.Snapshots.Add(1)
	r.config.Log.InfoContext(ctx, "snapshot installed", logkey.Cluster, head.Cluster, logkey.Seq, head.Seq, logkey.Epoch, head.Epoch, logkey.Took, time.Since(started))
	return f, nil
}

// fetch copies persdb's snapshot to path and verifies its checksum.
func (r *Replica) fetch(ctx context.Context, path string) (dbaas.Head, error) {
	s, err := r.config.Store.Snapshot(ctx)
	if err != nil {
		return dbaas.Head{}, transientError{fmt.Errorf("ask for snapshot: %w", err)}
	}
	defer func() { _ = s.Body.Close() }()                                    // what was read is checked below.
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // a name in the replica's own directory.
	if err != nil {
		return dbaas.Head{}, fmt.Errorf("make snapshot file: %w", err)
	}
	err = save(io.MultiWriter(bigfile.NewWriter(out), &meter{r: r}), s)
	if closed := out.Close(); err == nil && closed != nil {
		err = fmt.Errorf("close snapshot file: %w", closed)
	}
	return s.Head, err
}

// save writes the snapshot without an fsync: no later process uses the file. out passes the data to the disk in small
// portions, so that the commits of other processes on that disk do not wait long.
func save(out io.Writer, s *dbaas.Snapshot) error {
	sum := dbaas.NewSnapshotSum()
	_, err := io.CopyBuffer(io.MultiWriter(out, sum), s.Body, make([]byte, copyBufBytes))
	if dbaas.CodeOf(err) == dbaas.CodeUnavailable {
		return transientError{fmt.Errorf("copy snapshot: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("copy snapshot: %w", err)
	}
	announced, whole := s.Sum()
	switch {
	case !whole:
		return fmt.Errorf("%w: its end is missing", errSnapshot)
	case sum.Sum32() != announced:
		return fmt.Errorf("%w: checksum differs", errSnapshot)
	}
	return nil
}

// meter counts the bytes of one attempt to fetch a snapshot.
type meter struct {
	r    *Replica
	came int64 // bytes received
}

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	m.came += int64(len(p))
	if more := m.came - m.r.furthest; more > 0 {
		m.r.furthest = m.came
		m.r.progress.Add(uint64(more))
	}
	return len(p), nil
}

// openFile opens an installed snapshot, checks that it is at head's position, and removes what only persdb needs. The
// checksum has already proved that the bytes are those that persdb sent, so openFile does not check every page again.
func openFile(path string, head dbaas.Head) (*file, error) {
	w, err := sqlite.Open(path, sqlite.Options{Unchecked: true})
	if err != nil {
		return nil, err
	}
	f := &file{path: path, cluster: head.Cluster, writer: w, applier: replication.NewApplier(w), crowded: maxWAL, reading: map[*Reader]time.Time{}}
	f.head, err = replication.Position(w)
	f.head.Cluster = head.Cluster
	if err == nil && f.head.Seq != head.Seq {
		err = fmt.Errorf("%w: position %d inside, %d outside", errSnapshot, f.head.Seq, head.Seq)
	}
	if err == nil {
		err = replication.DropOwn(w)
	}
	if err != nil {
		_ = w.Close() // the caller removes the file anyway.
		return nil, err
	}
	return f, nil
}

// removeFiles removes a database and its WAL files. Connections that still have it open can continue to read it.
func removeFiles(path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix) // a file that remains is removed at the next start.
	}
}
