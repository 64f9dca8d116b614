package main

import (
	"bytes"
	"strings"
	"testing"
)

// What is not a terminal gets JSON from info on. -q and -v count more than the setting.
func TestLogging_Defaults(t *testing.T) {
	for name, tc := range map[string]struct {
		set  logging
		want []string
	}{
		"auto":    {logging{LogLevel: auto, LogFormat: auto}, []string{`"level":"INFO"`, `"level":"WARN"`}},
		"quiet":   {logging{LogLevel: "debug", LogFormat: auto, Quiet: true}, []string{`"level":"WARN"`}},
		"verbose": {logging{LogLevel: auto, LogFormat: auto, Verbose: true}, []string{`"level":"DEBUG"`, `"level":"INFO"`, `"level":"WARN"`}},
		"level":   {logging{LogLevel: "warn", LogFormat: "json"}, []string{`"level":"WARN"`}},
		"text":    {logging{LogLevel: auto, LogFormat: "text"}, []string{" INF two", " WRN three"}},
	} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			log, err := tc.set.logger(&output{stdout: &buf}, "up")
			if err != nil {
				t.Fatal(err)
			}
			log.DebugContext(t.Context(), "one")
			log.InfoContext(t.Context(), "two")
			log.WarnContext(t.Context(), "three")
			got := strings.Split(strings.TrimSpace(buf.String()), "\n")
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want lines with %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q in it", got[i], want)
				}
			}
			if tc.set.LogLevel == auto || tc.set.LogFormat == auto {
				t.Errorf("child processes would get %+v", tc.set)
			}
		})
	}
}

func TestLogging_QuietOrVerbose(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"up", "-q", "-v", "--gateway", "nonsense"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--quiet and --verbose can't be used together") {
		t.Errorf("got %d, %q", code, stderr.String())
	}
}

// Every command tells the version, also one that lacks settings. Without a command the help is shown, and that is
// wrong usage.
func TestRun_VersionAndHelp(t *testing.T) {
	for args, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"--version":        {exitDone, version + "\n", ""},
		"worker --version": {exitDone, version + "\n", ""},
		"version":          {exitDone, "SQLite     3.", ""},
		"help":             {exitDone, "Commands:", ""},
		"help up":          {exitDone, "--ready-file=FILE", ""},
		"":                 {exitUsage, "", "Commands:"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &stdout, &stderr)
		if code != want.code || !strings.Contains(stdout.String(), want.stdout) || !strings.Contains(stderr.String(), want.stderr) {
			t.Errorf("%q: got %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}
