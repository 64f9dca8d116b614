package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answer is the answer to one request.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// Try sends one request; headers are alternating names and values. An error means that there was no answer.
func (s *system) Try(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return s.send(req)
}

func (s *system) send(req *http.Request) (answer, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}, nil
}

// Call is Try for requests that must be answered.
func (s *system) Call(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	a, err := s.Try(context.Background(), method, url, body, headers...)
	if err != nil {
		t.Fatalf("%s %.200s: %v", method, url, err)
	}
	return a
}

// Get is a GET without a body.
func (s *system) Get(t *testing.T, url string, headers ...string) answer {
	t.Helper()
	return s.Call(t, http.MethodGet, url, "", headers...)
}

// Post is a POST.
func (s *system) Post(t *testing.T, url, body string, headers ...string) answer {
	t.Helper()
	return s.Call(t, http.MethodPost, url, body, headers...)
}

// anyBody is the body of an exchange whose answer has a body that is not compared.
const anyBody = "(any)"

// check returns what is wrong with a. It compares `{}` and an empty body exactly, and any other want as JSON.
func (a answer) check(status int, want string) error {
	if a.Status != status {
		return fmt.Errorf("got %d %.300q, want %d %.300q", a.Status, a.Body, status, want)
	}
	if want == anyBody || a.Body == want {
		return nil
	}
	if want == "" || want == "{}" {
		return fmt.Errorf("got body %.300q, want %q to the letter", a.Body, want)
	}
	got, err := parseJSON(a.Body)
	if err != nil {
		return fmt.Errorf("body %.300q: %w", a.Body, err)
	}
	wanted, err := parseJSON(want)
	if err != nil {
		return fmt.Errorf("the test's own %q: %w", want, err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		return fmt.Errorf("body (-want +got):\n%s", diff)
	}
	return nil
}

// expect fails the test unless a is as check wants it.
func (a answer) expect(t *testing.T, status int, want string) answer {
	t.Helper()
	if err := a.check(status, want); err != nil {
		t.Error(err)
	}
	return a
}

// seq is the position in X-Seq, which must be there.
func (a answer) seq(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(a.Header.Get("X-Seq"), 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("X-Seq: got %q, want a position (answer %d %.200s)", a.Header.Get("X-Seq"), a.Status, a.Body)
	}
	return n
}

// parseJSON reads exactly one value, numbers as they are written.
func parseJSON(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// decode reads the answer's body into a T.
func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		t.Fatalf("answer %d %.300q: %v", a.Status, a.Body, err)
	}
	return v
}

// toJSON is v as a client would write it: text unescaped where JSON allows it.
func toJSON(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("not JSON: %v", err) // Refused by every service, so the test sees it.
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

// exchange is one request and what must come back.
type exchange struct {
	name    string
	method  string
	url     string
	body    string
	headers []string // alternating names and values
	status  int
	answer  string // "" for no body at all, anyBody for any
}

// play runs the exchanges in order, each as a subtest.
func (s *system) play(t *testing.T, exchanges []exchange) {
	t.Helper()
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			s.Call(t, x.method, x.url, x.body, x.headers...).expect(t, x.status, x.answer)
		})
	}
}
