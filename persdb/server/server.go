// Package server offers persdb's store to the workers over HTTP. It stands between
// the master, the replicas and commitlog.Store, and adds nothing to the store's
// promises: what bulk there is travels as binary frames, errors keep their codes.
package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/logkey"
	"rideshare/internal/pause"
)

// Store is what the server offers. *commitlog.Store implements it.
type Store interface {
	Claim(ctx context.Context) (dbaas.Epoch, error)
	Commit(ctx context.Context, epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
}

// Headers of answers. Numbers are decimal, the checksum is CRC-32C in hex.
const (
	HeaderSeq   = "X-Seq"
	HeaderEpoch = "X-Epoch"
	HeaderSum   = "X-Crc32c"
)

const (
	// maxWait bounds a long poll of the log, whatever the caller asks for.
	maxWait = time.Minute
	// chunkTime is how long a reader of a snapshot may take for one buffer.
	chunkTime  = 30 * time.Second
	chunkBytes = 1 << 20
	// snapshotTime is how long it may take for all: the WAL grows meanwhile.
	snapshotTime = 10 * time.Minute
)

// Server is an http.Handler for persdb's internal API:
//
//	POST /v1/claim            {"epoch":n}
//	POST /v1/commit           header X-Epoch, body a write request; answers as CommitBody says
//	GET  /v1/head             {"seq":n,"epoch":n}
//	GET  /v1/log?after=&wait= a frame of entries, the head in the headers; wait in milliseconds
//	GET  /v1/snapshot         the database file; position in the headers, checksum in the trailer
//	GET  /v1/operations/{id}  a write reply with one answer
//	GET  /v1/hashes           dbaas.TableHashes
//	GET  /livez, /readyz
type Server struct {
	store Store
	log   *slog.Logger
	mux   *http.ServeMux
}

// New returns the handler. log gets failures of answers, once each.
func New(store Store, log *slog.Logger) *Server {
	s := &Server{store: store, log: log, mux: http.NewServeMux()}
	s.handle("POST /v1/claim", s.claim)
	s.handle("POST /v1/commit", s.commit)
	s.handle("GET /v1/head", s.head)
	s.handle("GET /v1/log", s.entries)
	s.handle("GET /v1/snapshot", s.snapshot)
	s.handle("GET /v1/operations/{id}", s.operation)
	s.handle("GET /v1/hashes", s.hashes)
	s.handle("GET /readyz", s.head)
	s.handle("GET /livez", func(w http.ResponseWriter, _ *http.Request) error { return sendJSON(w, struct{}{}) })
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

var (
	// errAborted ends an answer that has begun and cannot be finished.
	errAborted = errors.New("answer aborted")
	errSlow    = errors.New("the snapshot was read too slowly")
)

func (s *Server) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		if code := dbaas.CodeOf(err); code == dbaas.CodeInternal || code == dbaas.CodeUnavailable || code == dbaas.CodeUnknown {
			s.log.WarnContext(r.Context(), "request failed", logkey.Route, pattern, logkey.Code, code, logkey.Error, err)
		}
		if errors.Is(err, errAborted) {
			panic(http.ErrAbortHandler) // net/http cuts the connection, and the reader sees that the end is missing.
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
	Seq   dbaas.Seq   `json:"seq"`
	Epoch dbaas.Epoch `json:"epoch"`
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, frame.MaxBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the body ended early", err)
	}
	in, err := frame.DecodeWriteRequest(body)
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the body is no write request", err)
	}
	out, err := s.store.Commit(r.Context(), dbaas.Epoch(epoch), in.Operations)
	if err != nil {
		return err
	}
	answer, err := EncodeCommit(out)
	if err != nil { // it is on disk: the caller finds the results by their ids.
		return dbaas.WrapError(dbaas.CodeUnknown, "the answer is too large", err)
	}
	return sendFrame(w, answer)
}

// EncodeCommit returns a commit as the answer's body: the length of a write reply,
// the write reply, and then the entry, if there is one.
func EncodeCommit(c dbaas.Commit) ([]byte, error) {
	reply := frame.WriteReply{Last: true, Answers: make([]frame.WriteAnswer, len(c.Results))}
	for i := range c.Results {
		reply.Answers[i] = frame.WriteAnswer{Index: i, Result: c.Results[i]}
	}
	results, err := reply.Encode()
	if err != nil {
		return nil, err
	}
	var entry []byte
	if c.Entry != nil {
		if entry, err = frame.EncodeEntry(*c.Entry); err != nil {
			return nil, err
		}
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
	page, err := s.store.Log(r.Context(), dbaas.Seq(after), min(time.Duration(wait)*time.Millisecond, maxWait))
	if err != nil {
		return err
	}
	body, err := frame.EncodeEntries(0, page.Entries)
	if err != nil {
		return err
	}
	setHead(w, page.Head)
	return sendFrame(w, body)
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
	body, err := frame.WriteReply{Last: true, Answers: []frame.WriteAnswer{{Result: result}}}.Encode()
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

// stream sends a body of unknown length to a reader that must not dawdle. It takes turns with others: at full speed
// it and its reader would keep every core busy, and commits would wait for theirs.
func stream(ctx context.Context, w http.ResponseWriter, body io.Reader) error {
	end := time.Now().Add(snapshotTime)
	control := http.NewResponseController(w)
	buf := make([]byte, chunkBytes)
	for turns := pause.NewTurns(); ; {
		n, err := body.Read(buf)
		now := time.Now()
		if now.After(end) {
			return errSlow
		}
		_ = control.SetWriteDeadline(now.Add(chunkTime)) // not supported by test recorders only.
		if _, sent := w.Write(buf[:n]); sent != nil {
			return sent
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !turns.Rest(ctx) {
			return context.Cause(ctx)
		}
	}
}

func setHead(w http.ResponseWriter, h dbaas.Head) {
	w.Header().Set(HeaderSeq, strconv.FormatUint(uint64(h.Seq), 10))
	w.Header().Set(HeaderEpoch, strconv.FormatUint(uint64(h.Epoch), 10))
}

// Bodies are sent without looking at errors of the connection: then nobody reads.
func sendFrame(w http.ResponseWriter, body []byte) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return nil
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
