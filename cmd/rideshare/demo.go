package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"rideshare/bench/api"
	"rideshare/system"
)

// demoPassword is the SHA-1 of "demo", in hex, as a client would send it.
const demoPassword = "89e495e7941cf9e40e6980d14a16bf023ccd4c91" //nolint:gosec // public on purpose.

// demo adds a few users and rides through the public API if there are no users.
func demo(ctx context.Context, client *http.Client, urls system.URLs) error {
	c := &api.Client{HTTP: client, Base: urls.Gateway}
	if before := c.Call(ctx, http.MethodGet, "/api/v1/users", nil); before.Err != nil || before.Status != http.StatusNoContent {
		return before.Err
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		body := map[string]any{"username": name, "password": demoPassword}
		if _, err := mustCall(ctx, c, http.MethodPut, "/api/v1/users", body); err != nil {
			return err
		}
	}
	tomorrow := time.Now().AddDate(0, 0, 1).Format("02-01-2006:05-04-15") // seconds first, as the API has it
	location := ""
	for _, body := range []map[string]any{
		{"created_by": "ann", "timestamp": tomorrow, "source": 22, "destination": 23},
		{"created_by": "bob", "timestamp": tomorrow, "source": 22, "destination": 23, "seats": 2},
	} {
		ride, err := mustCall(ctx, c, http.MethodPost, "/api/v1/rides", body)
		if err != nil {
			return err
		}
		location = ride.Header.Get("Location")
	}
	_, err := mustCall(ctx, c, http.MethodPost, location, map[string]any{"username": "eve"})
	return err
}

// mustCall sends a request that must be answered with 2xx.
func mustCall(ctx context.Context, c *api.Client, method, path string, body any) (api.Reply, error) {
	r := c.Call(ctx, method, path, body)
	if r.Err == nil && r.Status/100 != 2 {
		r.Err = fmt.Errorf("%s %s: status %d", method, path, r.Status)
	}
	return r, r.Err
}
