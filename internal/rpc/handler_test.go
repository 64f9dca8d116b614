package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rpc"
	"rideshare/internal/testkit/apitest"
)

func serve(t *testing.T, pattern string, h rpc.Handler) (url string, failed <-chan string) {
	t.Helper()
	failures := make(chan string, 100) // more than any test causes
	mux := &rpc.Mux{Failed: func(_ context.Context, pattern string, err error) {
		failures <- pattern + ": " + err.Error()
	}}
	mux.Handle(pattern, h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, failures
}

// codes returns every error code that internal/dbaas declares.
func codes(t *testing.T) (all []dbaas.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../dbaas/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				all = append(all, dbaas.Code(text))
			}
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("got %d codes, want all", len(all))
	}
	return all
}

// Every code arrives with its message and without its cause, with the status of the one table, and in the fields that an
// older worker or persdb sends and reads.
func TestMux_ErrorsKeepTheirCode(t *testing.T) {
	for _, code := range codes(t) {
		cause := dbaas.WrapError(code, "what happened", errors.New("secret"))
		url, failed := serve(t, "GET /x", rpc.NoBody(func(context.Context) (number, error) { return number{7}, fmt.Errorf("wrapped: %w", cause) }))
		c := &rpc.Caller{Peer: "part", Base: url, HTTP: http.DefaultClient, MaxAnswer: maxAnswer}
		got, err := rpc.Call[number](t.Context(), c, rpc.Request{Method: http.MethodGet, Path: "/x", Effect: true}, nil)
		if e, ok := errors.AsType[*dbaas.Error](err); !ok || !cmp.Equal(e, &dbaas.Error{Code: code, Message: "what happened"}) || got.N != 0 {
			t.Errorf("%s: got %v and %v", code, got, err)
		}
		if got, want := <-failed, "GET /x: wrapped: what happened: secret"; got != want {
			t.Errorf("%s: failed %q, want %q", code, got, want)
		}
		answer := apitest.Do(t, http.MethodGet, url+"/x", "")
		want := fmt.Sprintf(`{"type":"urn:rideshare:problem:%s","title":%q,"status":%d,"detail":"what happened","code":%q,"message":"what happened"}`,
			code, httpapi.NewProblem(code).Title, answer.Status, code)
		if answer.Status != httpapi.StatusOf(code) || answer.Body != want {
			t.Errorf("%s: got %d %s, want %s", code, answer.Status, answer.Body, want)
		}
	}
}

// An error without a code shows nothing of itself, and an answer that cannot be encoded is such an error.
func TestMux_OtherErrorsAreInternal(t *testing.T) {
	for name, h := range map[string]rpc.Handler{
		"NoCode":      rpc.NoBody(func(context.Context) (rpc.None, error) { return rpc.None{}, errors.New("secret") }),
		"Unencodable": rpc.NoBody(func(context.Context) (float64, error) { return math.NaN(), nil }),
	} {
		url, _ := serve(t, "GET /x", h)
		got := apitest.Do(t, http.MethodGet, url+"/x", "")
		if got.Status != http.StatusInternalServerError || !strings.Contains(got.Body, `"detail":"internal error"`) || strings.Contains(got.Body, "secret") {
			t.Errorf("%s: got %d %s", name, got.Status, got.Body)
		}
	}
}

// A body that is not exactly what the call takes never reaches it.
func TestWithBody_Refuses(t *testing.T) {
	const limit = 100
	calls := 0
	url, _ := serve(t, "PUT /x", rpc.WithBody(limit, func(_ context.Context, in number) (number, error) {
		calls++
		return in, nil
	}))
	spaces := strings.Repeat(" ", limit)
	for _, tc := range []struct {
		method, body string
		want         int
	}{
		{"PUT", `{"n":7}`, 200},
		{"PUT", ``, 400},
		{"PUT", `{}`, 400},
		{"PUT", `{"n":7`, 400},
		{"PUT", `{"n":"7"}`, 400},
		{"PUT", `{"n":7,"m":8}`, 400},
		{"PUT", `{"n":7}{"n":8}`, 400},
		{"PUT", `null`, 400},
		{"PUT", `{"n":7}` + spaces, 413},
		{"POST", `{"n":7}`, 405},
	} {
		for _, body := range []io.Reader{strings.NewReader(tc.body), io.MultiReader(strings.NewReader(tc.body))} { // of known and of unknown length
			if got := apitest.Send(t, tc.method, url+"/x", body); got.Status != tc.want {
				t.Errorf("%s %.20q: got %d %s, want %d", tc.method, tc.body, got.Status, got.Body, tc.want)
			}
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// An answer that cannot be completed is cut.
func TestMux_ErrCut(t *testing.T) {
	url, failed := serve(t, "GET /x", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = io.WriteString(w, `{"n":7}`)
		return fmt.Errorf("the disk: %w", rpc.ErrCut)
	})
	c := &rpc.Caller{Peer: "part", Base: url, HTTP: http.DefaultClient, MaxAnswer: maxAnswer}
	if got, err := rpc.Call[number](t.Context(), c, rpc.Request{Method: http.MethodGet, Path: "/x"}, nil); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("got %v and %v, want code %q", got, err, dbaas.CodeUnavailable)
	}
	if got, want := <-failed, "GET /x: the disk: answer aborted"; got != want {
		t.Errorf("failed %q, want %q", got, want)
	}
}
