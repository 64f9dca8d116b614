package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"rideshare/internal/httpapi"
)

// maxReportBytes bounds what is read of an answer.
const maxReportBytes = 16 << 20

// source is an orchestrator's API.
type source struct {
	client              *http.Client
	base, authorization string
}

// refusal is an answer that is not 200.
type refusal struct {
	status string
	detail string
}

func (e *refusal) Error() string {
	if e.detail == "" {
		return "the orchestrator refused: " + e.status
	}
	return "the orchestrator refused: " + e.status + ": " + e.detail
}

// reason is the detail, or the status if there is none.
func (e *refusal) reason() string {
	if e.detail == "" {
		return e.status
	}
	return e.detail
}

// ask sends a request without a body and decodes the answer into answer, if that is not nil. A *refusal is an answer
// that is not 200.
func (f source) ask(ctx context.Context, method, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(f.base, "/")+path, http.NoBody)
	if err != nil {
		return usagef("%v", err)
	}
	req.Header.Set("Accept", "application/problem+json, application/json")
	if f.authorization != "" {
		req.Header.Set("Authorization", f.authorization)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // the address is in the text already
		}
		return fmt.Errorf("ask the orchestrator at %s: %w", f.base, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReportBytes))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem httpapi.Problem
		_ = json.Unmarshal(body, &problem) // without a detail the status is the message.
		return &refusal{status: resp.Status, detail: problem.Detail}
	}
	if answer == nil {
		return nil
	}
	if err = json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
