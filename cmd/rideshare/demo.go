package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"rideshare/system"
)

// demoPassword is the SHA-1 of "demo", in hex, as a client would send it.
const demoPassword = "89e495e7941cf9e40e6980d14a16bf023ccd4c91" //nolint:gosec // it is public by purpose.

// demo adds a few users and rides through the public API if there are no users.
func demo(ctx context.Context, client *http.Client, urls system.URLs) error {
	d := demoClient{client}
	empty, err := d.call(ctx, http.MethodGet, urls.Gateway+"/api/v1/users", nil)
	if err != nil || empty.status != http.StatusNoContent {
		return err
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		body := map[string]any{"username": name, "password": demoPassword}
		if _, err = d.mustCall(ctx, http.MethodPut, urls.Gateway+"/api/v1/users", body); err != nil {
			return err
		}
	}
	tomorrow := time.Now().AddDate(0, 0, 1).Format("02-01-2006:05-04-15") // seconds first, as the API has it
	var ride answer
	for _, body := range []map[string]any{
		{"created_by": "ann", "timestamp": tomorrow, "source": 22, "destination": 23},
		{"created_by": "bob", "timestamp": tomorrow, "source": 22, "destination": 23, "seats": 2},
	} {
		if ride, err = d.mustCall(ctx, http.MethodPost, urls.Gateway+"/api/v1/rides", body); err != nil {
			return err
		}
	}
	_, err = d.mustCall(ctx, http.MethodPost, urls.Gateway+ride.location, map[string]any{"username": "eve"})
	return err
}

// demoClient sends the requests.
type demoClient struct{ http *http.Client }

// answer is the part of an HTTP answer that demo needs.
type answer struct {
	status   int
	location string
}

func (d demoClient) mustCall(ctx context.Context, method, url string, body any) (answer, error) {
	a, err := d.call(ctx, method, url, body)
	if err == nil && a.status/100 != 2 {
		err = fmt.Errorf("%s %s: status %d", method, url, a.status)
	}
	return a, err
}

// call sends body as JSON and returns the answer without its body.
func (d demoClient) call(ctx context.Context, method, url string, body any) (answer, error) {
	var text io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("encode body: %w", err)
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, text)
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return answer{}, err // it names method and URL.
	}
	_, err = io.Copy(io.Discard, resp.Body) // to the end, so that the connection is reused
	return answer{resp.StatusCode, resp.Header.Get("Location")}, errors.Join(err, resp.Body.Close())
}
