package main

import (
	"bytes"
	"testing"

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
