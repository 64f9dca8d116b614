package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"rideshare/gateway"
)

// A body that has ended stays ended when the server closes it, which it does as soon as the answer begins.
func TestClientBody_ClosedAfterItsEnd_IsStillItsEnd(t *testing.T) {
	var text string
	var after error
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := gateway.ClientBody(r.Body)
		got, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		text = string(got)
		_ = r.Body.Close()
		_, after = body.Read(make([]byte, 1))
	}))
	defer server.Close()
	resp, err := server.Client().Post(server.URL, "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if text != "{}" || after != io.EOF {
		t.Errorf("got %q, then %v, want {} and then its end", text, after)
	}
}

// unfinished is a body that breaks off. As in net/http that ends the context of its request.
type unfinished struct {
	text   io.Reader
	err    error
	cancel context.CancelFunc
}

func (b unfinished) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if err != nil {
		b.cancel()
		err = b.err
	}
	return n, err
}

// A body that breaks off, because its time was over or the client left, is the client's fault: the answer says that
// nothing was done, and no outage of the service is logged.
func TestGateway_BodyNotToItsEnd_IsNoOutage(t *testing.T) {
	up := instance(t, "up")
	var logs bytes.Buffer
	g, err := gateway.New(gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}, Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[error]int{os.ErrDeadlineExceeded: http.StatusRequestTimeout, io.ErrUnexpectedEOF: http.StatusBadRequest} {
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			for _, length := range []int64{-1, 100} {
				t.Run(fmt.Sprint(end, " ", method, " of ", length), func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					req := httptest.NewRequestWithContext(ctx, method, "/api/v1/users", unfinished{strings.NewReader("some"), end, cancel})
					req.ContentLength = length
					rec := httptest.NewRecorder()
					if g.Handler().ServeHTTP(rec, req); rec.Code != want {
						t.Errorf("got %d %s, want %d", rec.Code, rec.Body, want)
					}
				})
			}
		}
	}
	if logs.Len() > 0 {
		t.Errorf("logged %s, want nothing", &logs)
	}
}
