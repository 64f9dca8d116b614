package ladder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/orchestrator/sqlbody"
)

// maxGroup is how many writes share a commit: as many as a message of the product carries at most.
const maxGroup = 256

// clientsWrites lets clients write everything that they may write in the product.
var clientsWrites = replication.WriteGuard(nil)

// bare is SQLite in the process of its HTTP server: no queue, no log, no replica. It has at least one read connection
// per core; writes that wait share one commit with one fsync.
type bare struct {
	readers chan *sqlite.Conn
	writer  *sqlite.Conn
	writes  chan *bareWrite
	done    sync.WaitGroup
}

type bareWrite struct {
	statements []dbaas.Statement
	done       chan error
}

func newBare(path string) (*bare, error) {
	writer, err := sqlite.Open(path, sqlite.Options{Durable: true, ForeignKeys: true, Triggers: true})
	if err != nil {
		return nil, fmt.Errorf("open bare database: %w", err)
	}
	n := 2 * runtime.GOMAXPROCS(0)
	b := &bare{writer: writer, readers: make(chan *sqlite.Conn, n), writes: make(chan *bareWrite, 4*maxGroup)}
	for range n {
		reader, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open bare reader: %w", err), b.close())
		}
		b.readers <- reader
	}
	b.done.Go(b.commitLoop)
	return b, nil
}

func (b *bare) close() error {
	close(b.writes)
	b.done.Wait()
	errs := []error{b.writer.Close()}
	for range len(b.readers) {
		errs = append(errs, (<-b.readers).Close())
	}
	return errors.Join(errs...)
}

// api serves the same routes as the product, on the same HTTP server.
func (b *bare) api() http.Handler { return databaseAPI(b.read, b.write, b.execute) }

// answerer computes the body of an answer from the body of a request.
type answerer func(ctx context.Context, body []byte) ([]byte, error)

func databaseAPI(read, write, execute answerer) http.Handler {
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	a.HandleHTTP(http.MethodPost, "/api/v1/db/read", plain(read), httpapi.EmptyErrorBodies())
	a.HandleHTTP(http.MethodPost, "/api/v1/db/write", plain(write), httpapi.EmptyErrorBodies())
	a.HandleHTTP(http.MethodPost, "/db/execute", plain(execute), httpapi.MaxBody(64<<20))
	return a
}

// emptyAPI answers every read without evaluating it.
func emptyAPI() http.Handler {
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	a.HandleHTTP(http.MethodPost, "/api/v1/db/read", plain(func(context.Context, []byte) ([]byte, error) {
		return []byte("[]"), nil
	}), httpapi.EmptyErrorBodies())
	return a
}

// plain turns an answerer into a handler.
func plain(answer answerer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			body, err = answer(r.Context(), body)
		}
		if err != nil {
			httpapi.WriteError(w, r, false, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a client that has gone needs no answer.
	})
}

func (b *bare) read(_ context.Context, body []byte) ([]byte, error) {
	s, err := sqlbody.ParseRead(body)
	if err != nil {
		return nil, err
	}
	conn := <-b.readers
	defer func() { b.readers <- conn }()
	return conn.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{s}}, replication.ReadGuard)
}

func (b *bare) write(_ context.Context, body []byte) ([]byte, error) {
	s, err := sqlbody.ParseWrite(body)
	if err != nil {
		return nil, err
	}
	return []byte("{}"), b.commit([]dbaas.Statement{s})
}

func (b *bare) execute(_ context.Context, body []byte) ([]byte, error) {
	s, err := sqlbody.ParseSQL(body)
	if err != nil {
		return nil, err
	}
	return []byte("{}"), b.commit(s)
}

func (b *bare) commit(statements []dbaas.Statement) error {
	w := &bareWrite{statements: statements, done: make(chan error, 1)}
	b.writes <- w
	return <-w.done
}

func (b *bare) commitLoop() {
	for first := range b.writes {
		group := append([]*bareWrite{first}, b.waiting()...)
		err := b.commitGroup(group)
		for _, w := range group {
			w.done <- err
		}
	}
}

// waiting returns the writes that are already waiting.
func (b *bare) waiting() []*bareWrite {
	var out []*bareWrite
	for len(out) < maxGroup-1 {
		select {
		case w, ok := <-b.writes:
			if !ok {
				return out
			}
			out = append(out, w)
		default:
			return out
		}
	}
	return out
}

func (b *bare) commitGroup(group []*bareWrite) error {
	if err := b.writer.BeginWrite(); err != nil {
		return err
	}
	for _, w := range group {
		for i := range w.statements {
			s, err := b.writer.Prepare(w.statements[i].SQL, clientsWrites)
			if err == nil {
				_, err = s.Run(&w.statements[i], 1<<20)
			}
			if err != nil {
				return errors.Join(err, b.writer.End())
			}
		}
	}
	return b.writer.Commit()
}
