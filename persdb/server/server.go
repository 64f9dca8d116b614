// Package server offers persdb's store to the workers over HTTP. It sits between the workers and commitlog.Store, and
// adds nothing to the store's guarantees. Bulk data travels as binary frames, and errors keep their codes.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/rpc"
	"rideshare/internal/wire"
	"rideshare/persdb/client"
)

// Store is the part of the store that the server offers. *commitlog.Store implements it.
type Store interface {
	Claim(ctx context.Context) (dbaas.Epoch, error)
	Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Await(ctx context.Context, after dbaas.Seq, wait time.Duration) (int64, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	Sizes(ctx context.Context) (dbaas.Sizes, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
	Backup(ctx context.Context, form dbaas.BackupForm) (*dbaas.Backup, error)
	FileSQL(ctx context.Context, file []byte) ([]byte, error)
	TakeOver(ctx context.Context) error
	Ready(ctx context.Context) (dbaas.Readiness, error)
}

const (
	// maxWait bounds a long poll of the log, even if the caller asks for more.
	maxWait = time.Minute
	// chunkTime is how long a reader of a long log page may take for chunkBytes.
	chunkTime  = 30 * time.Second
	chunkBytes = 1 << 20
	// backupTime is how long a reader may take for a whole backup. It may be longer than for a snapshot: a backup occupies a
	// file, but does not hold back the WAL.
	backupTime = time.Hour
)

// maxFrom bounds the body with a dbaas.HashFrom, which contains a table name.
const maxFrom = 1 << 20

// server has the handlers of the calls whose bodies are not plain JSON.
type server struct {
	store Store
	// commits and pages limit the large commit bodies and the large log pages that are in memory at the same time.
	commits, pages gate
}

// New returns a handler for persdb's internal API, whose paths are in package client, and for GET /livez and /readyz.
// It writes one line to log for each failure that is not the caller's fault.
func New(store Store, log *slog.Logger) http.Handler {
	s := &server{store: store, commits: newGate(1), pages: newGate(largePages)}
	mux := &rpc.Mux{Failed: func(ctx context.Context, pattern string, err error) {
		if dbaas.IsNotActive(err) { // the caller asks another persdb.
			return
		}
		switch code := dbaas.CodeOf(err); code { //nolint:exhaustive // all others are expected answers.
		case dbaas.CodeInternal, dbaas.CodeDamaged, dbaas.CodeUnavailable, dbaas.CodeUnknown:
			log.WarnContext(ctx, "request failed", logkey.Route, pattern, logkey.Code, code, logkey.Error, err)
		}
	}}
	mux.Handle("POST "+client.PathClaim, s.active(rpc.NoBody(func(ctx context.Context) (dbaas.Head, error) {
		epoch, err := store.Claim(ctx)
		return dbaas.Head{Epoch: epoch}, err
	})))
	mux.Handle("POST "+client.PathCommit, s.active(s.commit))
	mux.Handle("GET "+client.PathHead, s.active(rpc.NoBody(store.Head)))
	mux.Handle("GET "+client.PathLog, func(w http.ResponseWriter, r *http.Request) error {
		return s.entries(w, r, func(ctx context.Context, after dbaas.Seq) (dbaas.Page, error) { return store.Log(ctx, after, 0) })
	})
	mux.Handle("GET "+client.PathChanges, s.changes)
	mux.Handle("GET "+client.PathSnapshot, s.snapshot)
	mux.Handle("GET "+client.PathBackup, s.backup)
	mux.Handle("POST "+client.PathFileSQL, s.fileSQL)
	mux.Handle("GET "+client.PathOperations+"{id}", s.active(s.operation))
	mux.Handle("GET "+client.PathHashes, rpc.NoBody(store.Hashes))
	mux.Handle("GET "+client.PathSizes, rpc.NoBody(store.Sizes))
	mux.Handle("POST "+client.PathHashPart, rpc.WithBody(maxFrom, store.HashPart))
	mux.Handle("GET /readyz", rpc.NoBody(store.Ready))
	mux.Handle("GET /livez", rpc.NoBody(func(context.Context) (rpc.None, error) { return rpc.None{}, nil }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(client.HeaderTime, strconv.FormatInt(time.Now().UnixMicro(), 10))
		mux.ServeHTTP(w, r)
	})
}

// active returns the handler of a call that only the active persdb answers. A caller that has found no active persdb makes
// this one active first (HeaderTakeOver).
func (s *server) active(h rpc.Handler) rpc.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get(client.HeaderTakeOver) != "" {
			if err := s.store.TakeOver(r.Context()); err != nil {
				return err
			}
		}
		return h(w, r)
	}
}

// errSlow ends a snapshot or a backup whose reader exceeds its time limit.
var errSlow = errors.New("the answer was read too slowly")

func (s *server) commit(w http.ResponseWriter, r *http.Request) error {
	epoch, err := strconv.ParseUint(r.Header.Get(client.HeaderEpoch), 10, 64)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "header %s is not an epoch", client.HeaderEpoch)
	}
	by := dbaas.Leadership{Epoch: dbaas.Epoch(epoch)}
	if by.Cluster.UnmarshalText([]byte(r.Header.Get(client.HeaderCluster))) != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "header %s is not a cluster id", client.HeaderCluster)
	}
	done, err := s.commits.take(r.Context(), r.ContentLength)
	if err != nil {
		return err
	}
	defer done()
	body, err := httpapi.ReadLimited(w, r, wire.MaxBytes)
	if err != nil {
		return err
	}
	in, err := wire.DecodeWriteRequest(body, time.Now())
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the body is not a write request", err)
	}
	out, err := s.store.Commit(r.Context(), by, in.Operations)
	if err != nil {
		return err
	}
	answer, err := client.EncodeCommit(out)
	if err != nil { // the commit is on disk: the caller can look up the results by their ids.
		return dbaas.WrapError(dbaas.CodeUnknown, "the answer is too large", err)
	}
	return sendParts(w, [][]byte{answer})
}

// changes answers like PathLog, with a page of at most size bytes.
func (s *server) changes(w http.ResponseWriter, r *http.Request) error {
	size, err := strconv.ParseUint(r.FormValue("size"), 10, 31)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "parameter size is not a number of bytes")
	}
	return s.entries(w, r, func(ctx context.Context, after dbaas.Seq) (dbaas.Page, error) {
		return s.store.Changes(ctx, after, 0, int(size))
	})
}

// entries waits for entries, and sends the page that read returns.
func (s *server) entries(w http.ResponseWriter, r *http.Request, read func(ctx context.Context, after dbaas.Seq) (dbaas.Page, error)) error {
	after, err := strconv.ParseUint(r.FormValue("after"), 10, 63)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "parameter after is not a position")
	}
	wait := int64(0)
	if text := r.FormValue("wait"); text != "" {
		if wait, err = strconv.ParseInt(text, 10, 32); err != nil || wait < 0 {
			return dbaas.Errorf(dbaas.CodeInvalid, "parameter wait is not a number of milliseconds")
		}
	}
	size, err := s.store.Await(r.Context(), dbaas.Seq(after), min(time.Duration(wait)*time.Millisecond, maxWait))
	if err != nil {
		return err
	}
	done, err := s.pages.take(r.Context(), size)
	if err != nil {
		return err
	}
	defer done()
	page, err := read(r.Context(), dbaas.Seq(after))
	if err == nil || dbaas.CodeOf(err) == dbaas.CodeGone {
		client.SetBounds(w.Header(), page)
	}
	if err != nil {
		return err
	}
	body, err := wire.EncodeEntries(0, page.Entries)
	if err != nil {
		return err
	}
	return sendParts(w, body)
}

func (s *server) operation(w http.ResponseWriter, r *http.Request) error {
	id, err := dbaas.ParseOpID(r.PathValue("id"))
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the operation's id is not a UUID", err)
	}
	result, err := s.store.Lookup(r.Context(), id)
	if err != nil {
		return err
	}
	body, err := wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: result}}}.Encode()
	if err != nil {
		return err
	}
	return sendParts(w, [][]byte{body})
}

func (s *server) snapshot(w http.ResponseWriter, r *http.Request) (err error) {
	snapshot, err := s.store.Snapshot(r.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Body.Close()) }()
	client.SetHead(w.Header(), snapshot.Head)
	w.Header().Set("Content-Type", "application/vnd.sqlite3")
	w.Header().Set("Trailer", client.HeaderSum)
	if err = stream(r.Context(), w, snapshot.Body, snapshotTime(snapshot.Bytes)); err != nil {
		return errors.Join(rpc.ErrCut, err)
	}
	sum, whole := snapshot.Sum()
	if !whole {
		return rpc.ErrCut
	}
	client.SetSum(w.Header(), sum)
	return nil
}
