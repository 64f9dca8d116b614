package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

const (
	// answerTimeout is how long an answer may take to begin once the request is sent. No statement may take that long.
	answerTimeout = time.Minute
	// transferTimeout is the same for a backup and a load: the server first copies the tables, or runs the whole load.
	transferTimeout = 15 * time.Minute
	// pieceTimeout is how long the server may take for a piece of a body that it reads or writes. It allows a slow client
	// half of that.
	pieceTimeout = time.Minute
	// maxProblem is how many bytes of an error answer are read.
	maxProblem = 64 << 10
	// longBody is the length in bytes above which a body is sent only once the server has accepted the head, or has not
	// answered for continueTimeout. Otherwise a send error could hide the server's refusal.
	longBody        = 1 << 20
	continueTimeout = 5 * time.Second
)

var (
	errNotUTF8 = errors.New("the statement is not UTF-8")
	// errUnknown is the error of a change without an answer.
	errUnknown = errors.New("a change that was under way may be done or not")
)

// call is a request. body may be nil; size is its length in bytes, and kind its type.
type call struct {
	method, path string
	query        url.Values
	body         io.Reader
	size         int64
	kind         string
	// transfer: the answer may take transferTimeout to begin, not only answerTimeout.
	transfer bool
	// key is the Idempotency-Key, "" for none. again: a request with this key was sent before, and its outcome is not known.
	key   string
	again bool
}

// lost returns the error of a request that may have arrived and has no answer.
func (k call) lost(err error) error {
	if k.method == http.MethodGet {
		return err
	}
	return fmt.Errorf("%w; %w", err, errUnknown)
}

// clientOf returns a client that follows no redirection.
func clientOf(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send sends a request and returns the answer, whose body the caller closes. Every status but 200 is an error. The error is
// errUnknown if the request may have changed something.
func (s *shell) send(ctx context.Context, k call) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, k.method, s.cfg.URL+k.path+"?"+k.query.Encode(), k.body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.ContentLength = k.size
	if k.body != nil {
		req.Header.Set("Content-Type", k.kind)
	}
	if k.size > longBody {
		req.Header.Set("Expect", "100-continue")
	}
	if s.cfg.Authorization != "" {
		req.Header.Set("Authorization", s.cfg.Authorization)
	}
	if k.key != "" {
		req.Header.Set(httpapi.HeaderIdempotencyKey, k.key)
	}
	client := s.http
	if k.transfer {
		client = s.transfers
	}
	resp, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" || k.again {
			err = k.lost(err)
		}
		return nil, fmt.Errorf("no answer from %s: %w", s.cfg.URL, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()                     // read only: nothing to lose.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // without it the status is the message.
	refused, _ := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, text)
	err = &refusal{status: resp.StatusCode, err: refused}
	if k.again || k.key != "" && resp.StatusCode == http.StatusGatewayTimeout {
		err = k.lost(err)
	}
	return nil, err
}

// refusal is an answer that is an error.
type refusal struct {
	status int
	err    *dbaas.Error
}

func (e *refusal) Error() string {
	return fmt.Sprintf("%s (HTTP %d)", escape(e.err.Message, unsafe), e.status)
}

// fetch sends a request and decodes the answer into v.
func (s *shell) fetch(ctx context.Context, k call, v any) error {
	resp, err := s.send(ctx, k)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	if err = json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("the answer of %s broke off or is not that of an orchestrator: %w", s.cfg.URL, k.lost(err))
	}
	return nil
}

// ask runs a statement and returns its result. The server decides where the statement runs. values are its parameters.
func (s *shell) ask(ctx context.Context, sql string, values ...any) (*result, error) {
	if !utf8.ValidString(sql) {
		return nil, errNotUTF8
	}
	body, err := json.Marshal([]any{append([]any{sql}, values...)})
	if err != nil {
		return nil, fmt.Errorf("encode the statement: %w", err)
	}
	return s.result(ctx, call{
		method: http.MethodPost, path: "/db/request", body: bytes.NewReader(body), size: int64(len(body)), kind: "application/json",
		query: url.Values{"level": {s.level}, "blob_array": {""}},
	})
}

// result sends a request and returns the only result of its answer. A statement that failed is an error.
func (s *shell) result(ctx context.Context, k call) (*result, error) {
	var answer struct {
		Results []result `json:"results"`
	}
	if err := s.fetch(ctx, k, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) == 0 {
		return &result{}, nil
	}
	if r := &answer.Results[0]; r.Error == "" {
		return r, nil
	}
	return nil, errors.New(answer.Results[0].Error)
}

// connect checks that an orchestrator answers and accepts the credentials, even if it cannot serve reads.
func (s *shell) connect(ctx context.Context) error {
	query := url.Values{"q": {"SELECT 1"}, "level": {"none"}}
	_, err := s.result(ctx, call{method: http.MethodGet, path: "/db/query", query: query})
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	switch refused.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return hinted(err)
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return nil
	default:
		return fmt.Errorf("%s is no orchestrator: %w", s.cfg.URL, err)
	}
}

// hinted adds to a refusal of the credentials a hint how to pass other credentials.
func hinted(err error) error {
	refused, ok := errors.AsType[*refusal](err)
	if ok && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden) {
		return fmt.Errorf("%w; --auth-file or --user give credentials", err)
	}
	return err
}
