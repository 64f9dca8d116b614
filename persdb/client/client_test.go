package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
	"rideshare/persdb/client"
	"rideshare/persdb/server"
)

// to returns a client connected to a handler.
func to(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return newClient(t, web.URL)
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// failing is a store whose every call fails with one error.
type failing struct{ err error }

func (f failing) Claim(context.Context) (dbaas.Epoch, error) { return 0, f.err }
func (f failing) Commit(context.Context, dbaas.Leadership, []dbaas.Operation) (dbaas.Commit, error) {
	return dbaas.Commit{}, f.err
}

func (f failing) Head(context.Context) (dbaas.Head, error) { return dbaas.Head{}, f.err }

func (f failing) Await(context.Context, dbaas.Seq, time.Duration) (int64, error) {
	if dbaas.CodeOf(f.err) == dbaas.CodeGone { // only Log says that, with the bounds of the log.
		return 0, nil
	}
	return 0, f.err
}

func (f failing) Log(context.Context, dbaas.Seq, time.Duration) (dbaas.Page, error) {
	return dbaas.Page{}, f.err
}

func (f failing) Changes(context.Context, dbaas.Seq, time.Duration, int) (dbaas.Page, error) {
	return dbaas.Page{}, f.err
}
func (f failing) Snapshot(context.Context) (*dbaas.Snapshot, error) { return nil, f.err }
func (f failing) Lookup(context.Context, dbaas.OpID) (dbaas.OperationResult, error) {
	return dbaas.OperationResult{}, f.err
}

func (f failing) Backup(context.Context, dbaas.BackupForm) (*dbaas.Backup, error) {
	return nil, f.err
}

func (f failing) FileSQL(context.Context, []byte) ([]byte, error) { return nil, f.err }

func (f failing) TakeOver(context.Context) error { return f.err }
func (f failing) Ready(context.Context) (dbaas.Readiness, error) {
	return dbaas.Readiness{}, f.err
}

func (f failing) Sizes(context.Context) (dbaas.Sizes, error) { return dbaas.Sizes{}, f.err }
func (f failing) HashPart(context.Context, dbaas.HashFrom) (dbaas.HashPart, error) {
	return dbaas.HashPart{}, f.err
}

func (f failing) Hashes(context.Context) (dbaas.TableHashes, error) {
	return dbaas.TableHashes{}, f.err
}

// calls returns all methods by name, as functions that return only the error.
func calls(ctx context.Context, s storetest.Store) map[string]func() error {
	return map[string]func() error{
		"Claim": func() error { _, err := s.Claim(ctx); return err },
		"Commit": func() error {
			_, err := s.Commit(ctx, dbaas.Leadership{Epoch: 1}, []dbaas.Operation{storetest.Op(1, "SELECT 1")})
			return err
		},
		"Head":     func() error { _, err := s.Head(ctx); return err },
		"Log":      func() error { _, err := s.Log(ctx, 1, 0); return err },
		"Snapshot": func() error { _, err := s.Snapshot(ctx); return err },
		"Lookup":   func() error { _, err := s.Lookup(ctx, storetest.ID(1)); return err },
		"Sizes":    func() error { _, err := s.Sizes(ctx); return err },
		"HashPart": func() error { _, err := s.HashPart(ctx, dbaas.HashFrom{}); return err },
		"Hashes":   func() error { _, err := s.Hashes(ctx); return err },
	}
}

// Every error code of every method is returned unchanged, with its message and without its cause.
func TestClient_ErrorsKeepTheirCode(t *testing.T) {
	for _, code := range []dbaas.Code{
		dbaas.CodeInvalid, dbaas.CodeConstraint, dbaas.CodeNotFound, dbaas.CodeConflict, dbaas.CodeMismatch, dbaas.CodeExpired, dbaas.CodeTooLarge,
		dbaas.CodeUnavailable, dbaas.CodeNotCaughtUp, dbaas.CodeUnknown, dbaas.CodeTimeout, dbaas.CodeUnauthorized, dbaas.CodeStaleEpoch,
		dbaas.CodeGone, dbaas.CodeFull, dbaas.CodeInternal,
	} {
		cause := dbaas.WrapError(code, "as it is", errors.New("the cause"))
		c := to(t, server.New(failing{fmt.Errorf("wrapped: %w", cause)}, slog.New(slog.DiscardHandler)))
		for name, call := range calls(t.Context(), c) {
			want := &dbaas.Error{Code: code, Message: "as it is"}
			got, ok := errors.AsType[*dbaas.Error](call())
			if !ok || !cmp.Equal(want, got) {
				t.Errorf("%s with code %q: got %v", name, code, got)
			}
		}
	}
}

// trimmed is a store whose log begins at 41.
type trimmed struct{ failing }

func (trimmed) Log(context.Context, dbaas.Seq, time.Duration) (dbaas.Page, error) {
	return dbaas.Page{Head: dbaas.Head{Cluster: dbaas.ClusterID{1}, Seq: 50, Epoch: 3}, First: 41}, dbaas.ErrGone
}

// The refusal of a page says where the log begins. A refusal that does not say it is not persdb's.
func TestClient_Log_RefusalHasBounds(t *testing.T) {
	h := server.New(trimmed{failing{dbaas.ErrGone}}, slog.New(slog.DiscardHandler))
	page, err := to(t, h).Log(t.Context(), 7, 0)
	if !errors.Is(err, dbaas.ErrGone) {
		t.Errorf("got %v, want %v", err, dbaas.ErrGone)
	}
	want := dbaas.Page{Head: dbaas.Head{Cluster: dbaas.ClusterID{1}, Seq: 50, Epoch: 3}, First: 41}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("bounds of the log (-want +got):\n%s", diff)
	}
	for _, header := range []string{"X-First-Seq", "X-Seq", "X-Epoch"} {
		c := to(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(without{w, header}, r) }))
		if page, err = c.Log(t.Context(), 7, 0); dbaas.CodeOf(err) != dbaas.CodeInternal || page.First != 0 {
			t.Errorf("without %s: got %+v, %v, want code %q", header, page, err, dbaas.CodeInternal)
		}
	}
}

// without removes a header from an answer.
type without struct {
	http.ResponseWriter

	header string
}

func (w without) WriteHeader(status int) {
	w.Header().Del(w.header)
	w.ResponseWriter.WriteHeader(status)
}

// If no server listens, certainly nothing was done.
func TestClient_NobodyListens_Unavailable(t *testing.T) {
	for name, call := range calls(t.Context(), newClient(t, "http://"+testenv.FreeAddress(t))) {
		if err := call(); dbaas.CodeOf(err) != dbaas.CodeUnavailable || !errors.Is(err, dbaas.ErrUnreachable) {
			t.Errorf("%s: got %v, want code %q, caused by %v", name, err, dbaas.CodeUnavailable, dbaas.ErrUnreachable)
		}
	}
}

// A commit whose answer is lost, cut off, or not persdb's own has an unknown outcome; other calls fail with
// CodeUnavailable.
func TestClient_AnswerLost_CommitIsUnknown(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"Dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		},
		"Proxy":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"Garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\x05garbage that is no frame")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := to(t, h)
			for method, call := range calls(t.Context(), c) {
				got := dbaas.CodeOf(call())
				switch {
				case method == "Commit" && got != dbaas.CodeUnknown:
					t.Errorf("%s: got %q, want %q", method, got, dbaas.CodeUnknown)
				case method != "Commit" && got != dbaas.CodeUnavailable && got != dbaas.CodeInternal:
					t.Errorf("%s: got %q", method, got)
				}
			}
		})
	}
}

// A commit whose entry is cut or lengthened, at any byte, has an unknown outcome: the master broadcasts no such frame.
func TestClient_Commit_ChangedEntryIsUnknown(t *testing.T) {
	entry := dbaas.Entry{Cluster: dbaas.ClusterID{1}, Seq: 7, Epoch: 3, Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: []byte("rows")}}}
	frame, err := wire.EncodeEntry(entry)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := client.EncodeCommit(dbaas.Commit{Results: make([]dbaas.OperationResult, 1), Entry: &dbaas.EncodedEntry{Frame: frame}})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(answer []byte) (dbaas.Commit, error) {
		c := to(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
		return c.Commit(t.Context(), dbaas.Leadership{Epoch: 3}, []dbaas.Operation{storetest.Op(1, "SELECT 1")})
	}
	got, err := commit(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&dbaas.EncodedEntry{Head: dbaas.Head{Cluster: entry.Cluster, Seq: 7, Epoch: 3}, Frame: frame}, got.Entry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	changed := [][]byte{append(slices.Clone(whole), 0)}
	for n := len(whole) - len(frame) + 1; n < len(whole); n++ {
		changed = append(changed, whole[:n])
	}
	for _, answer := range changed {
		if _, err := commit(answer); dbaas.CodeOf(err) != dbaas.CodeUnknown {
			t.Errorf("%d of %d bytes: got %v, want code %q", len(answer), len(whole), err, dbaas.CodeUnknown)
		}
	}
}

// A server that hangs does not block the caller beyond its context, and a commit then has an unknown outcome.
func TestClient_ServerHangs_ContextEndsCall(t *testing.T) {
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := to(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel() // The request has come.
		<-release
	}))
	t.Cleanup(func() { close(release) })
	if _, err := c.Commit(ctx, dbaas.Leadership{Epoch: 1}, nil); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Errorf("commit: got %v, want code %q", err, dbaas.CodeUnknown)
	}
	if _, err := c.Head(ctx); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("head: got %v, want code %q", err, dbaas.CodeUnavailable)
	}
}

// A snapshot that is cut off never ends with io.EOF.
func TestClient_Snapshot_CutIsSeen(t *testing.T) {
	content := strings.Repeat("database ", 10_000)
	const sum = 0xf4deb857 // CRC-32C of content, computed bit by bit
	send := func(end func(http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Seq", "7")
			w.Header().Set("X-Epoch", "3")
			w.Header().Set("Trailer", "X-Crc32c")
			_, _ = io.WriteString(w, content)
			end(w)
		}
	}
	for name, tc := range map[string]struct {
		end        func(http.ResponseWriter)
		all, whole bool
	}{
		"Whole":       {func(w http.ResponseWriter) { w.Header().Set("X-Crc32c", "f4deb857") }, true, true},
		"Cut":         {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, false, false},
		"NoChecksum":  {func(http.ResponseWriter) {}, true, false},
		"BadChecksum": {func(w http.ResponseWriter) { w.Header().Set("X-Crc32c", "beef") }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := to(t, send(tc.end)).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := (dbaas.Head{Seq: 7, Epoch: 3}); s.Head != want {
				t.Errorf("got %v, want %v", s.Head, want)
			}
			_, err = io.Copy(io.Discard, s.Body)
			if closed := s.Body.Close(); closed != nil {
				t.Error(closed)
			}
			if all := err == nil; all != tc.all {
				t.Errorf("got %v, want it read to its end: %v", err, tc.all)
			}
			if err != nil && dbaas.CodeOf(err) != dbaas.CodeUnavailable {
				t.Errorf("got code %q", dbaas.CodeOf(err))
			}
			if got, whole := s.Sum(); whole != tc.whole || whole && got != sum {
				t.Errorf("got checksum %x, whole: %v; want %x, %v", got, whole, sum, tc.whole)
			}
		})
	}
}

// Invalid addresses are refused immediately.
func TestNew_BadURL(t *testing.T) {
	for _, url := range []string{"", "host:1", "ftp://host", "http://", "http://[", "/path"} {
		if _, err := client.New(client.Config{URL: url}); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
}
