package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/orchestrator/orchestratorapi"
	"rideshare/system"
)

// A launcher is process, one URL, or a list with a name for each host. Everything else is refused with a message that says
// what is wrong.
func TestOrchestratorCommand_Launchers(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  []system.RemoteLauncher
		fails string
	}{
		{"process", nil, ""},
		{"http://launcher:9600", []system.RemoteLauncher{{URL: "http://launcher:9600"}}, ""},
		{"unix:///run/a=b.sock", []system.RemoteLauncher{{URL: "unix:///run/a=b.sock"}}, ""},
		{"a=https://h1:9600,b-2=unix:///b.sock", []system.RemoteLauncher{{Name: "a", URL: "https://h1:9600"}, {Name: "b-2", URL: "unix:///b.sock"}}, ""},
		{"", nil, "a=https://h1:9600,b=https://h2:9600"},
		{"https://h1:9600,https://h2:9600", nil, "a list like a="},
		{"a=https://h1:9600,https://h2:9600", nil, `"https://h2:9600" in the list has no name`},
		{"a=https://h1:9600,", nil, `"" in the list has no name`},
		{"a=https://h1:9600,a=https://h2:9600", nil, `"a" occurs twice`},
		{"a=https://h1:9600,b=https://h1:9600", nil, "is in the list twice"},
		{"a=h1:9600", nil, "host a"},
		{"=http://h1:9600", nil, `host name ""`},
		{"A=http://h1:9600", nil, `host name "A"`},
	} {
		got, err := (&orchestratorCommand{Launcher: tt.value}).launchers()
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%q: got error %v, want one with %q", tt.value, err, tt.fails)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.value, diff)
		}
	}
}

// With several hosts, the status shows them, and the host of each worker.
func TestScreen_Show_Hosts(t *testing.T) {
	var got bytes.Buffer
	c := known()
	c.Members[1].Host = "b"
	c.Hosts = []orchestratorapi.HostInfo{{Name: "a", State: "present"}, {Name: "b", State: "silent"}, {Name: "c", State: "lost"}}
	if err := (screen{w: &got}).show(status{Ready: true, Cluster: c}, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hosts     a, b (silent), c (lost)\n",
		"UP    HOST  WORKER\n",
		"2d3h  a     w-mwst8lc5-0001\n",
		"2s    b     w-mwst8lc5-0002\n",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", got.String(), want)
		}
	}
}
