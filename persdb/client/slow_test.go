package client_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/persdb/client"
	"rideshare/persdb/server"
)

// line is a transport that sends a handler's answers at a fixed number of bytes a second, and stalls at one byte
// position.
type line struct {
	handler   http.Handler
	perSecond int
	stallAt   int // after so many bytes; none if zero
}

func (l line) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	l.handler.ServeHTTP(recorder, r)
	resp := recorder.Result()
	resp.Body = io.NopCloser(&slowBody{line: l, ctx: r.Context(), body: resp.Body})
	return resp, nil
}

type slowBody struct {
	line line
	ctx  context.Context //nolint:containedctx // of the request.
	body io.Reader
	read int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.line.stallAt > 0 && b.read >= b.line.stallAt {
		<-b.ctx.Done()
	}
	n, err := b.body.Read(p[:min(len(p), b.line.perSecond/10)])
	b.read += n
	if !wait.For(b.ctx, time.Duration(n)*time.Second/time.Duration(b.line.perSecond)) {
		return 0, context.Cause(b.ctx)
	}
	return n, err
}

// paged is a store with one long entry.
type paged struct {
	failing

	entry dbaas.Entry
}

func (p paged) Log(context.Context, dbaas.Seq, time.Duration) (dbaas.Page, error) {
	return dbaas.Page{Entries: []dbaas.Entry{p.entry}, Head: dbaas.Head{Seq: p.entry.Seq, Epoch: p.entry.Epoch}}, nil
}

// A long page gets through a slow line, far beyond every time-out, as long as its bytes arrive. A page that stalls
// fails.
func TestClient_Log_SlowLine(t *testing.T) {
	long := bytes.Repeat([]byte{7}, 40<<20)
	entry := dbaas.Entry{Seq: 1, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: long}}}
	handler := server.New(paged{entry: entry}, slog.New(slog.DiscardHandler))
	for name, tc := range map[string]struct {
		stallAt int
		want    error
		took    time.Duration
	}{
		"Flows": {took: 40 * time.Second},
		"Stops": {stallAt: 20 << 20, want: dbaas.ErrUnavailable, took: 22 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := client.New(client.Config{URL: "http://persdb", HTTP: &http.Client{Transport: line{handler, 1 << 20, tc.stallAt}}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := wait.UntilStalled(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				page, err := c.Log(ctx, 0, 0)
				if took := time.Since(began).Truncate(time.Second); dbaas.CodeOf(err) != dbaas.CodeOf(tc.want) || took != tc.took {
					t.Fatalf("got %v after %v, want %v after %v", err, took, tc.want, tc.took)
				}
				if err == nil && (len(page.Entries) != 1 || !bytes.Equal(page.Entries[0].Changes[0].Data, long)) {
					t.Error("the page is not the one that was sent")
				}
			})
		})
	}
}
