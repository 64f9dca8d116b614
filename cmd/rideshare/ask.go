package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"rideshare/bench/api"
	"rideshare/internal/httpapi"
)

// source is an orchestrator's API.
type source struct{ api.Client }

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

// ask sends a request without a body and decodes the answer into answer, if that is not nil. It returns a *refusal for
// an answer other than 200.
func (f source) ask(ctx context.Context, method, path string, answer any) error {
	r := f.Call(ctx, method, path, nil, "Accept", "application/problem+json, application/json")
	if outer, ok := errors.AsType[*url.Error](r.Err); ok {
		r.Err = outer.Err // the address is in the text already
	}
	if r.Err != nil {
		return fmt.Errorf("ask the orchestrator at %s: %w", f.Base, r.Err)
	}
	if r.Status != http.StatusOK {
		var problem httpapi.Problem
		_ = json.Unmarshal(r.Body, &problem) // without a detail the status is the message.
		return &refusal{status: fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)), detail: problem.Detail}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(r.Body, answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
