package dbclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// answering is a client of an orchestrator whose answers come from answer.
func answering(t *testing.T, timeout time.Duration, answer http.HandlerFunc) *dbclient.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Seq", "7")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := dbclient.New(dbclient.Config{URL: server.URL, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var selectNames = dbclient.SQL("SELECT username, n FROM users")

// Rows arrive one by one while the answer is still being produced, so that nothing has to be held.
func TestClient_Rows_ComeAsTheyAreSent(t *testing.T) {
	seen := make(chan string)
	c := answering(t, 10*time.Second, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"results":[{"columns":["username","n"],"types":["text","integer"],"values":[`)
		for i := range 5 {
			if i > 0 {
				_, _ = fmt.Fprint(w, ",")
			}
			_, _ = fmt.Fprintf(w, `["u%d",%d]`, i, 9007199254740993+i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case got := <-seen:
				if want := fmt.Sprintf("7 u%d %d", i, 9007199254740993+i); got != want {
					t.Errorf("got row %s, want %s", got, want)
				}
			case <-r.Context().Done():
				t.Error("the row has not come before the next one")
				return
			}
		}
		_, _ = fmt.Fprint(w, `]}]}`)
	})
	seq, err := c.Rows(t.Context(), dbclient.Options{}, selectNames, func(seq dbaas.Seq, row []any) error {
		seen <- fmt.Sprint(seq, " ", row[0], " ", row[1])
		return nil
	})
	if err != nil || seq != 7 {
		t.Errorf("got position %d, %v, want 7", seq, err)
	}
}

// An error answer, a truncated answer and a malformed answer each cause an error whose code tells the caller what to
// do.
func TestClient_Rows_Errors(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		rows       int
		want       dbaas.Code
	}{
		{"Empty", `{"results":[{"columns":["a"],"types":[""]}]}`, 200, 0, dbaas.CodeOK},
		{"Full", `{"results":[{"values":[["a"],["b"]],"types":[]}],"time":1}`, 200, 2, dbaas.CodeOK},
		{"Statement", `{"results":[{"error":"no such table: users"}]}`, 200, 0, dbaas.CodeInternal},
		{"Cut", `{"results":[{"values":[["a"],["b"`, 200, 1, dbaas.CodeUnavailable},
		{"CutBetween", `{"results":[{"values":[["a"]`, 200, 1, dbaas.CodeUnavailable},
		{"NotJSON", `<html>`, 200, 0, dbaas.CodeUnavailable},
		{"OtherJSON", `[]`, 200, 0, dbaas.CodeUnavailable},
		{"Refused", `{"code":"not_caught_up"}`, 503, 0, dbaas.CodeNotCaughtUp},
		{"Timeout", `{}`, 504, 0, dbaas.CodeTimeout},
		{"Credentials", `{}`, 401, 0, dbaas.CodeInternal},
		{"Forbidden", `{}`, 403, 0, dbaas.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := answering(t, 10*time.Second, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			rows := 0
			_, err := c.Rows(t.Context(), dbclient.Options{}, selectNames, func(dbaas.Seq, []any) error { rows++; return nil })
			if dbaas.CodeOf(err) != tt.want || rows != tt.rows {
				t.Errorf("got %d rows, %v; want %d and %q", rows, err, tt.rows, tt.want)
			}
		})
	}
}

// The caller's own error ends the rows and is returned as it is.
func TestClient_Rows_CallersError(t *testing.T) {
	c := answering(t, 10*time.Second, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"values":[["a"],["b"],["c"]]}]}`)
	})
	own, rows := errors.New("enough"), 0
	if _, err := c.Rows(t.Context(), dbclient.Options{}, selectNames, func(dbaas.Seq, []any) error { rows++; return own }); err != own || rows != 1 { //nolint:errorlint // as it is
		t.Errorf("got %d rows, %v; want one and the caller's error", rows, err)
	}
}

// A database that stops in the middle of an answer is given up after the timeout.
func TestClient_Rows_Stalled(t *testing.T) {
	leave := make(chan struct{})
	c := answering(t, 50*time.Millisecond, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"values":[["a"],`)
		_ = http.NewResponseController(w).Flush()
		<-leave
	})
	defer close(leave)
	_, err := c.Rows(t.Context(), dbclient.Options{}, selectNames, func(dbaas.Seq, []any) error { return nil })
	if dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("got %v, want a timeout", err)
	}
}
