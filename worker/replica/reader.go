package replica

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
)

// chunkBytes is the size of the buffers that answers are rendered into: a few hundred point reads fit into one.
const chunkBytes = 16 << 10

// errReaderEnded is the answer to reads that were stopped so that the WAL could be emptied.
var errReaderEnded = dbaas.Errorf(dbaas.CodeTimeout, "the read took so long that the replica's log of changes grew too large; make it shorter, or send it in parts")

// Reader is one read transaction on one connection. It is used by one goroutine at a time.
type Reader struct {
	r       *Replica
	file    *file
	conn    *sqlite.Conn
	head    dbaas.Head
	buf     []byte
	ended   atomic.Bool // the Reader was stopped because it was open for too long; see file.relieve
	onEnd   func()      // see file.whenEnded; guarded by file.mu
	release func(*file, *sqlite.Conn)
}

// Reader returns a Reader at the present position, without waiting. It returns an error with CodeNotCaughtUp while the
// replica may not be read. The caller closes the Reader.
func (r *Replica) Reader() (*Reader, error) {
	r.mu.Lock()
	f, _, ok := r.readable()
	r.mu.Unlock()
	return r.reader(f, ok, (*file).acquire, (*file).release)
}

// scanner returns a Reader for scanning the whole file that entries are applied to. A file that no Reader can be opened
// on, because it is damaged or gone, is discarded.
func (r *Replica) scanner() (*Reader, error) {
	r.mu.Lock()
	f, ok := r.file, r.ready
	r.mu.Unlock()
	rd, err := r.reader(f, ok, (*file).scan, (*file).drop)
	if err != nil && ok && f.unopenable(err) {
		r.invalidate(f, err)
	}
	return rd, err
}

// reader returns a Reader of f, provided ok is true. connect opens its connection and release returns it.
func (r *Replica) reader(f *file, ok bool, connect func(*file) (*sqlite.Conn, error), release func(*file, *sqlite.Conn)) (*Reader, error) {
	if !ok {
		return nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "the worker has not caught up")
	}
	conn, err := connect(f)
	if err != nil {
		return nil, err
	}
	rd := &Reader{r: r, file: f, conn: conn, release: release}
	if err = conn.Begin(); err != nil {
		rd.Close()
		return nil, err
	}
	// The first read fixes the state that the transaction sees, so the position belongs to that state.
	if rd.head, err = replication.Position(conn); err != nil {
		rd.Close()
		return nil, err
	}
	rd.head.Cluster = f.cluster
	f.enter(rd)
	return rd, nil
}

// Cluster returns the cluster that Seq belongs to.
func (rd *Reader) Cluster() dbaas.ClusterID { return rd.head.Cluster }

// Seq returns the position that the Reader sees.
func (rd *Reader) Seq() dbaas.Seq { return rd.head.Seq }

// Pace registers pace. A long read calls it periodically on its own goroutine; pace may block.
func (rd *Reader) Pace(pace func()) { rd.conn.Pace(pace) }

// Read runs one read until its deadline or the end of ctx, and returns its answer or its failure. Later reads do not
// change the returned Body.
func (rd *Reader) Read(ctx context.Context, read *dbaas.Read) dbaas.ReadResult {
	if cap(rd.buf)-len(rd.buf) < chunkBytes/16 {
		rd.buf = make([]byte, 0, chunkBytes)
	}
	n := len(rd.buf)
	if rd.ended.Load() {
		return rd.failed(ctx, read, errReaderEnded)
	}
	var out []byte
	err := rd.conn.Within(ctx, func() (err error) {
		out, err = rd.conn.AppendRead(rd.buf[n:n], read, replication.ReadGuard)
		return err
	})
	if err != nil {
		return rd.failed(ctx, read, err)
	}
	if n+len(out) <= cap(rd.buf) {
		rd.buf = rd.buf[:n+len(out)] // out may be in another array; then this only wastes space
	}
	result := dbaas.ReadResult{Seq: rd.head.Seq, Body: slices.Clip(out)}
	if read.WantTags && !read.Linearizable && !read.Timings && len(out) <= maxTagged {
		if result.Tags, err = replication.ReadTags(rd.conn, read); err != nil {
			rd.r.Stats.ReadErrors.Add(1)
			rd.r.config.Log.ErrorContext(ctx, "tags of a read not found", logkey.RequestID, read.RequestID, logkey.Error, err)
		}
	}
	return result
}

// maxTagged is the size in bytes of the largest answer that gets tags, and so can be cached.
const maxTagged = 64 << 10

func (rd *Reader) failed(ctx context.Context, read *dbaas.Read, err error) dbaas.ReadResult {
	if rd.ended.Load() {
		err = errReaderEnded
	}
	result := dbaas.ReadResult{Code: dbaas.CodeOf(err), Message: "internal error", Seq: rd.head.Seq}
	if e, ok := errors.AsType[*dbaas.Error](err); ok && result.Code != dbaas.CodeInternal {
		result.Message = e.Message
	}
	if errors.Is(err, sqlite.ErrDamaged) {
		rd.r.suspect(rd.file, err)
	}
	if result.Code == dbaas.CodeInternal {
		rd.r.Stats.ReadErrors.Add(1)
		rd.r.config.Log.ErrorContext(ctx, "read failed", logkey.RequestID, read.RequestID, logkey.Error, err)
	}
	return result
}

// Close ends the transaction and returns the connection.
func (rd *Reader) Close() {
	rd.file.exit(rd)
	rd.conn.Pace(nil)
	if err := rd.conn.End(); err != nil {
		rd.file.drop(rd.conn) // a connection that cannot end a read is of no use.
		return
	}
	rd.release(rd.file, rd.conn)
}

// Hashes returns the hashes of all tables at one position, or CodeNotCaughtUp while the replica has not caught up.
func (r *Replica) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	rd, err := r.scanner()
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	defer rd.Close()
	return rd.hashes(ctx)
}

// hashPart hashes the same part as want, which persdb hashed.
func (rd *Reader) hashPart(ctx context.Context, from dbaas.HashFrom, want dbaas.HashPart) (dbaas.HashPart, error) {
	p := dbaas.HashPart{Limit: want.Limit}
	p.Seq = rd.head.Seq
	err := rd.conn.Within(ctx, func() (err error) {
		turns := wait.NewTurns()
		p.Tables, p.Next, err = replication.HashPart(rd.conn, from, p.Limit, func() { turns.Rest(ctx) })
		return err
	})
	return p, err
}

func (rd *Reader) hashes(ctx context.Context) (dbaas.TableHashes, error) {
	h := dbaas.TableHashes{Seq: rd.head.Seq}
	err := rd.conn.Within(ctx, func() (err error) {
		turns := wait.NewTurns()
		h.Tables, err = replication.Hashes(rd.conn, func() { turns.Rest(ctx) })
		return err
	})
	if rd.ended.Load() {
		err = errReaderEnded
	}
	return h, err
}
