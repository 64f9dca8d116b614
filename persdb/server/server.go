// Package server offers persdb's store to the workers over HTTP. It sits between the master or the replicas and
// commitlog.Store, and adds nothing to the store's guarantees. Bulk data travels as binary frames, and errors keep
// their codes.
package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wire"
)

// Store is the part of the store that the server offers. *commitlog.Store implements it.
type Store interface {
	Claim(ctx context.Context) (dbaas.Epoch, error)
	Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Await(ctx context.Context, after dbaas.Seq, wait time.Duration) (int64, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	Sizes(ctx context.Context) (dbaas.Sizes, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
}

// Headers of answers. Numbers are decimal, the checksum is CRC-32C in hex.
const (
	HeaderSeq   = "X-Seq"
	HeaderEpoch = "X-Epoch"
	HeaderSum   = "X-Crc32c"
	// HeaderCluster is sent in answers with a position, and in commits of a master that knows its cluster.
	HeaderCluster = "X-Cluster-Id"
	// HeaderFirst is sent with a page of the log, and with the refusal of a page that the log no longer has.
	HeaderFirst = "X-First-Seq"
)

const (
	// maxWait bounds a long poll of the log, even if the caller asks for more.
	maxWait = time.Minute
	// chunkTime is how long a reader of a snapshot, or of a long log page, may take for one buffer.
	chunkTime  = 30 * time.Second
	chunkBytes = 1 << 20
	// snapshotTime is how long a reader may take for a whole snapshot: the WAL grows until then.
	snapshotTime = 10 * time.Minute
)

// Server is an http.Handler for persdb's internal API:
//
//	POST /v1/claim            {"epoch":n}
//	POST /v1/commit           headers X-Epoch and X-Cluster-Id, body a write request; answers as EncodeCommit says
//	GET  /v1/head             {"cluster":"id","seq":n,"epoch":n}
//	GET  /v1/log?after=&wait= a frame of entries; the head, its cluster and the first entry that is kept in the headers,
//	                          also of a refusal with CodeGone; wait in milliseconds
//	GET  /v1/snapshot         the database file; position and cluster in the headers, checksum in the trailer
//	GET  /v1/operations/{id}  a write reply with one answer
//	GET  /v1/hashes           dbaas.TableHashes
//	GET  /v1/sizes            dbaas.Sizes
//	POST /v1/hashes/part      body dbaas.HashFrom, answers dbaas.HashPart
//	GET  /livez, /readyz
type Server struct {
	store Store
	log   *slog.Logger
	mux   *http.ServeMux
	// commits and pages limit the large commit bodies and the large log pages that are in memory at the same time.
	commits, pages gate
}

// New returns the handler. Each failed answer is logged once to log.
func New(store Store, log *slog.Logger) *Server {
	s := &Server{store: store, log: log, mux: http.NewServeMux(), commits: newGate(1), pages: newGate(largePages)}
	s.handle("POST /v1/claim", s.claim)
	s.handle("POST /v1/commit", s.commit)
	s.handle("GET /v1/head", s.head)
	s.handle("GET /v1/log", s.entries)
	s.handle("GET /v1/snapshot", s.snapshot)
	s.handle("GET /v1/operations/{id}", s.operation)
	s.handle("GET /v1/hashes", s.hashes)
	s.handle("GET /v1/sizes", s.sizes)
	s.handle("POST /v1/hashes/part", s.hashPart)
	s.handle("GET /readyz", s.head)
	s.handle("GET /livez", func(w http.ResponseWriter, _ *http.Request) error { return sendJSON(w, struct{}{}) })
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

var (
	// errAborted ends an answer that has begun but cannot be completed.
	errAborted = errors.New("answer aborted")
	errSlow    = errors.New("the answer was read too slowly")
)

func (s *Server) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		switch code := dbaas.CodeOf(err); code { //nolint:exhaustive // the others say what the caller did.
		case dbaas.CodeInternal, dbaas.CodeDamaged, dbaas.CodeUnavailable, dbaas.CodeUnknown:
			s.log.WarnContext(r.Context(), "request failed", logkey.Route, pattern, logkey.Code, code, logkey.Error, err)
		}
		if errors.Is(err, errAborted) {
			panic(http.ErrAbortHandler) // net/http cuts the connection, so the reader sees that the answer is incomplete.
		}
		sendError(w, err)
	})
}

func (s *Server) claim(w http.ResponseWriter, r *http.Request) error {
	epoch, err := s.store.Claim(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(w, headBody{Epoch: epoch})
}

// headBody is the JSON of a head.
type headBody struct {
	Cluster dbaas.ClusterID `json:"cluster,omitzero"`
	Seq     dbaas.Seq       `json:"seq"`
	Epoch   dbaas.Epoch     `json:"epoch"`
}

func (s *Server) head(w http.ResponseWriter, r *http.Request) error {
	h, err := s.store.Head(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(w, headBody(h))
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request) error {
	epoch, err := strconv.ParseUint(r.Header.Get(HeaderEpoch), 10, 64)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "header %s is no epoch", HeaderEpoch)
	}
	by := dbaas.Leadership{Epoch: dbaas.Epoch(epoch)}
	if by.Cluster.UnmarshalText([]byte(r.Header.Get(HeaderCluster))) != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "header %s is no cluster id", HeaderCluster)
	}
	done, err := s.commits.take(r.Context(), r.ContentLength)
	if err != nil {
		return err
	}
	defer done()
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	in, err := wire.DecodeWriteRequest(body, time.Now())
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the body is no write request", err)
	}
	out, err := s.store.Commit(r.Context(), by, in.Operations)
	if err != nil {
		return err
	}
	answer, err := EncodeCommit(out)
	if err != nil { // the commit is on disk: the caller finds the results by their ids.
		return dbaas.WrapError(dbaas.CodeUnknown, "the answer is too large", err)
	}
	return sendFrame(w, answer)
}

// EncodeCommit encodes a commit as the body of an answer: the length of a write reply, the write reply, and then the
// frame of the entry, if there is one.
func EncodeCommit(c dbaas.Commit) ([]byte, error) {
	reply := wire.WriteReply{Last: true, Answers: make([]wire.WriteAnswer, len(c.Results))}
	for i := range c.Results {
		reply.Answers[i] = wire.WriteAnswer{Index: i, Result: c.Results[i]}
	}
	results, err := reply.Encode()
	if err != nil {
		return nil, err
	}
	var entry []byte
	if c.Entry != nil {
		entry = c.Entry.Frame
	}
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(results)+len(entry)), uint64(len(results)))
	return append(append(b, results...), entry...), nil
}

func (s *Server) entries(w http.ResponseWriter, r *http.Request) error {
	after, err := strconv.ParseUint(r.FormValue("after"), 10, 63)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "parameter after is no position")
	}
	wait := int64(0)
	if text := r.FormValue("wait"); text != "" {
		if wait, err = strconv.ParseInt(text, 10, 32); err != nil || wait < 0 {
			return dbaas.Errorf(dbaas.CodeInvalid, "parameter wait is no number of milliseconds")
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
	page, err := s.store.Log(r.Context(), dbaas.Seq(after), 0)
	if err == nil || dbaas.CodeOf(err) == dbaas.CodeGone {
		setHead(w, page.Head)
		w.Header().Set(HeaderFirst, strconv.FormatUint(uint64(page.First), 10))
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

func (s *Server) operation(w http.ResponseWriter, r *http.Request) error {
	id, err := dbaas.ParseOpID(r.PathValue("id"))
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the operation's id is no UUID", err)
	}
	result, err := s.store.Lookup(r.Context(), id)
	if err != nil {
		return err
	}
	body, err := wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: result}}}.Encode()
	if err != nil {
		return err
	}
	return sendFrame(w, body)
}

func (s *Server) hashes(w http.ResponseWriter, r *http.Request) error {
	h, err := s.store.Hashes(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(w, h)
}

func (s *Server) sizes(w http.ResponseWriter, r *http.Request) error {
	sizes, err := s.store.Sizes(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(w, sizes)
}

// maxFrom bounds the body with a dbaas.HashFrom, which contains a table name.
const maxFrom = 1 << 20

func (s *Server) hashPart(w http.ResponseWriter, r *http.Request) error {
	var from dbaas.HashFrom
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFrom)).Decode(&from); err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the body is no place in the tables", err)
	}
	h, err := s.store.HashPart(r.Context(), from)
	if err != nil {
		return err
	}
	return sendJSON(w, h)
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) (err error) {
	snapshot, err := s.store.Snapshot(r.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Body.Close()) }()
	setHead(w, snapshot.Head)
	w.Header().Set("Content-Type", "application/vnd.sqlite3")
	w.Header().Set("Trailer", HeaderSum)
	if err = stream(r.Context(), w, snapshot.Body); err != nil {
		return errors.Join(errAborted, err)
	}
	sum, whole := snapshot.Sum()
	if !whole {
		return errAborted
	}
	w.Header().Set(HeaderSum, fmt.Sprintf("%08x", sum))
	return nil
}

func setHead(w http.ResponseWriter, h dbaas.Head) {
	w.Header().Set(HeaderCluster, h.Cluster.String())
	w.Header().Set(HeaderSeq, strconv.FormatUint(uint64(h.Seq), 10))
	w.Header().Set(HeaderEpoch, strconv.FormatUint(uint64(h.Epoch), 10))
}

func sendJSON(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
	return nil
}
