package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/report"
	"rideshare/orchestrator/invariants"
	"rideshare/persdb/client"
)

// checkTimeout is longer than the orchestrator's longest check.
const checkTimeout = time.Minute

// checkCommand is `rideshare check`.
type checkCommand struct {
	Orchestrator string `default:"http://127.0.0.1:8083" placeholder:"URL" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator of the system to check, ${orSeveral} (${default})."`
	Persdb       string `default:"" placeholder:"URL" env:"PERSDB_URL" help:"Base URL of persdb, or of several with commas in between, whose log is then read from here; default: the orchestrator reads it."`
	JSON         string `name:"json" default:"" placeholder:"FILE" env:"CHECK_JSON" help:"Write the report there as JSON."`
	clientSettings
}

// Run checks, prints a line for each invariant, and returns an error that names the invariants that do not hold.
func (c *checkCommand) Run(ctx context.Context, out *output) error {
	authorization, err := c.authorization(ctx, out)
	if c.Persdb != "" {
		err = joinUsage(checkURLs("--persdb", c.Persdb), err)
	}
	if err = joinUsage(checkURLs("--orchestrator", c.Orchestrator), err); err != nil {
		return err
	}
	from := source{api.Client{HTTP: out.httpClient(), Base: strings.TrimSuffix(c.Orchestrator, "/"), Authorization: authorization}}
	if strings.Contains(c.Orchestrator, ",") {
		base, to, wrong := reachAPI(out, c.Orchestrator, unlimited)
		if wrong != nil {
			return wrong
		}
		from.HTTP, from.Base = &http.Client{Transport: to}, base
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var found invariants.Report
	if err = from.ask(ctx, http.MethodPost, "/api/v1/check", &found); err != nil {
		return err
	}
	if err = c.readLog(ctx, out, &found); err != nil {
		return err
	}
	if err = report.WriteJSON(c.JSON, found); err != nil {
		return err
	}
	return printReport(out.stdout, found)
}

// readLog reads persdb's log itself, and replaces the orchestrator's results for the log.
func (c *checkCommand) readLog(ctx context.Context, out *output, found *invariants.Report) error {
	if c.Persdb == "" {
		return nil
	}
	store, err := client.New(client.Config{URL: c.Persdb, Observe: true, TLS: out.tls})
	if err != nil {
		return usagef("--persdb: %v", err)
	}
	found.Replace(invariants.Log(ctx, store)...)
	return store.Close()
}

// printReport prints one line for each invariant. Its error names the invariants that do not hold.
func printReport(w io.Writer, found invariants.Report) error {
	var failed []string
	for _, i := range found.Invariants {
		state := "ok    "
		if !i.OK {
			state = "FAILED"
			failed = append(failed, i.Name+" ("+i.Detail+")")
		}
		if _, err := fmt.Fprintf(w, "%-16s  %s  %s\n", i.Name, state, i.Detail); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("does not hold: %s", strings.Join(failed, ", "))
	}
	if !found.OK || len(found.Invariants) == 0 {
		return errors.New("the report says nothing")
	}
	return nil
}
