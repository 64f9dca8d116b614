package main

import (
	"testing"

	"github.com/alecthomas/kong"

	"rideshare/internal/sqlite"
)

// A size is a number of bytes or has a unit; nothing else passes.
func TestByteSize_UnmarshalText(t *testing.T) {
	for text, want := range map[string]byteSize{
		"1": 1, "1048576": 1 << 20, "64KiB": 64 << 10, "128MiB": 128 << 20, "2GiB": 2 << 30, "5000000000": 5_000_000_000,
		"": 0, "0": 0, "-1": 0, "1.5MiB": 0, "12MB": 0, "KiB": 0, "9999999999GiB": 0, "1 MiB": 0,
	} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
}

// What the settings say by default is what the engine has by default.
func TestSQLLimits_Defaults(t *testing.T) {
	var p persdbCommand
	parser, err := kong.New(&p, kong.Vars{})
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.limits(); err != nil || got != (sqlite.Limits{}).WithDefaults() {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The times of writes are those of persdb by default. An operation is over before the master repeats its commit.
func TestWriteTimes_Check(t *testing.T) {
	for _, tc := range []struct {
		args []string
		ok   bool
	}{
		{nil, true},
		{[]string{"--sql-write-time=1s", "--sql-operation-time=4s"}, true},
		{[]string{"--sql-operation-time=4100ms"}, false},
		{[]string{"--sql-operation-time=1s"}, false},
		{[]string{"--sql-write-time=0s"}, false},
	} {
		var p persdbCommand
		parser, err := kong.New(&p, kong.Vars{})
		if err == nil {
			_, err = parser.Parse(tc.args)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err = p.check(); (err == nil) != tc.ok {
			t.Errorf("%v: got %v, want ok %t", tc.args, err, tc.ok)
		}
	}
}
