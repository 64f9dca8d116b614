package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/restore"
)

// A restore says which positions after its own the archive has lost.
func TestRestoreCommand_Report_Gap(t *testing.T) {
	for want, gap := range map[string]*archive.Range{
		"": nil,
		"the archive has a gap here: positions 9 to 16 cannot be restored\n": {First: 9, Last: 16},
	} {
		var stdout, stderr bytes.Buffer
		made := restore.Made{Cluster: dbaas.ClusterID{0xab}, Seq: 8, Gap: gap}
		if err := (&restoreCommand{From: "file:///a", Data: "d"}).report(&output{stdout: &stdout, stderr: &stderr}, made); err != nil {
			t.Fatal(err)
		}
		if got := stderr.String(); got != want || stdout.Len() == 0 {
			t.Errorf("gap %v: got errors %q, output %q; want errors %q", gap, got, stdout.String(), want)
		}
	}
}

// A restore says of which time its position is, and of which time the next entry, as far as they are known.
func TestRestoreCommand_Report_Times(t *testing.T) {
	at := time.Date(2026, 3, 2, 10, 0, 13, 0, time.UTC)
	for want, made := range map[string]restore.Made{
		"at position 0\n": {},
		"at position 8 of 2026-03-02T10:00:13.000Z\n":                                                {Seq: 8, At: at},
		"at position 8 of 2026-03-02T10:00:13.000Z; the next entry is of 2026-03-03T10:00:13.000Z\n": {Seq: 8, At: at, Next: at.Add(24 * time.Hour)},
	} {
		var stdout, stderr bytes.Buffer
		err := (&restoreCommand{From: "file:///a", Data: "d"}).report(&output{stdout: &stdout, stderr: &stderr}, made)
		if got := stdout.String(); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%+v: got %q, %v, want %q", made, got, err, want)
		}
	}
}
