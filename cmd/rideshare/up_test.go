package main

import (
	"context"
	"strings"
	"testing"
)

// A stop while the database is opened is no failure. An opening of so little notices the stop in one of two cases only.
func TestUp_StoppedWhileOpening_ExitsZero(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := "up --gateway 127.0.0.1:0 --users 127.0.0.1:0 --rides 127.0.0.1:0 --orchestrator 127.0.0.1:0 --log-level error --data " + t.TempDir()
	for range 12 {
		var stdout, stderr lines
		if code := run(ctx, strings.Fields(args), &stdout, &stderr); code != exitDone || stderr.text.String() != "" {
			t.Fatalf("got exit code %d and stderr %q, want %d and nothing", code, stderr.text.String(), exitDone)
		}
	}
}
