package dbclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// rowsRoom is the memory of a stream of rows, in bytes: one row, the decoder's buffer, and the values decoded from
// them.
const rowsRoom = 4 << 20

// Rows runs one read and calls each with every row as it arrives, so that an answer of any length takes little memory.
// It returns the position that the read saw, which is also passed to each. The error is that of the call, of the
// statement, or of each, which ends the read. The client's timeout applies to the start of the answer and to the wait
// between two rows; the time spent in each does not count.
func (c *Client) Rows(ctx context.Context, opts Options, stmt dbaas.Statement, each func(seq dbaas.Seq, row []any) error) (dbaas.Seq, error) {
	body, err := encodeStatements([]dbaas.Statement{stmt})
	if err != nil {
		return 0, err
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.timeout, func() { cancel(context.DeadlineExceeded) })
	defer idle.Stop()
	late := func(err error) error {
		if ctx.Err() != nil && caller.Err() == nil {
			return dbaas.WrapError(dbaas.CodeTimeout, "no answer from the database in time", err)
		}
		return dbaas.WrapError(dbaas.CodeUnavailable, "the database cannot be reached", err)
	}
	k := call{method: http.MethodPost, path: "/db/query", body: body, opts: opts, authorization: c.authorization()}
	resp, seq, err := c.open(ctx, k, late)
	if err != nil {
		return seq, err
	}
	defer func() { _ = resp.Body.Close() }() // The body was read to its end, or the read failed already.
	if n := resp.ContentLength; n < 0 || n > largeAnswer {
		if err = httpapi.Hold(ctx, rowsRoom); err != nil {
			return seq, err
		}
	}
	r := rowReader{dec: json.NewDecoder(resp.Body), each: func(row []any) error {
		idle.Stop()
		defer idle.Reset(c.timeout)
		return each(seq, row)
	}}
	r.dec.UseNumber()
	err = r.read()
	if broken, ok := errors.AsType[*brokenError](err); ok {
		return seq, late(broken.err)
	}
	return seq, err
}

// open sends k, with retries if they may help, and returns the beginning of a successful answer, whose body the caller
// closes. late returns the error of a read that got no answer, given its cause.
func (c *Client) open(ctx context.Context, k call, late func(error) error) (resp *http.Response, seq dbaas.Seq, err error) {
	err = c.repeat(ctx, false, time.Now().Add(c.timeout), func() ended {
		var sendErr error
		if resp, sendErr = c.send(ctx, k); sendErr != nil {
			return ended{how: brokenEnd(ctx, sendErr), err: late(sendErr)}
		}
		seq = seqOf(resp)
		if resp.StatusCode == http.StatusOK {
			return ended{how: endAnswered}
		}
		defer func() { _ = resp.Body.Close() }() // as in Rows
		text, readErr := readAnswer(ctx, k, resp)
		if readErr != nil {
			return ended{how: brokenEnd(ctx, readErr), err: late(readErr)}
		}
		return c.refused(k, false, resp, text)
	})
	return resp, seq, err
}

// brokenError is an answer that was cut off or malformed.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "broken answer: " + e.err.Error() }

// rowReader reads {"results":[{"values":[row, ...]}]} or {"results":[{"error":"..."}]} piece by piece.
type rowReader struct {
	dec  *json.Decoder
	each func(row []any) error
}

func (r *rowReader) read() error {
	return r.object(func(key string) error {
		if key != "results" {
			return r.skip(key)
		}
		return r.array(func() error {
			return r.object(func(key string) error {
				if key != "values" {
					return r.skip(key)
				}
				return r.array(r.row)
			})
		})
	})
}

func (r *rowReader) row() error {
	var row []any
	if err := r.dec.Decode(&row); err != nil {
		return &brokenError{err}
	}
	if err := exact([][]any{row}); err != nil {
		return err
	}
	return r.each(row)
}

// skip reads the value of a key other than the rows. The value of "error" is returned as the statement's error.
func (r *rowReader) skip(key string) error {
	var value any
	if err := r.dec.Decode(&value); err != nil {
		return &brokenError{err}
	}
	if text, ok := value.(string); ok && key == "error" {
		return statementError(text)
	}
	return nil
}

func (r *rowReader) object(member func(key string) error) error {
	return r.between('{', func() error {
		token, err := r.dec.Token()
		if err != nil {
			return &brokenError{err}
		}
		key, _ := token.(string) // the decoder allows only strings as keys.
		return member(key)
	})
}

func (r *rowReader) array(item func() error) error { return r.between('[', item) }

// between calls item for each element of an object or array.
func (r *rowReader) between(open json.Delim, item func() error) error {
	token, err := r.dec.Token()
	if err == nil && token != open {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &brokenError{err}
	}
	for r.dec.More() {
		if err = item(); err != nil {
			return err
		}
	}
	if _, err = r.dec.Token(); err != nil {
		return &brokenError{err}
	}
	return nil
}
