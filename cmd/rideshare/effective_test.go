package main

import (
	"cmp"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"rideshare/internal/settings"
)

var update = flag.Bool("update", false, "write orchestrator/console/licences.txt")

// The list names the value and the source of each setting, without passwords, tokens and queries of URLs.
func TestEffective_SourcesWithoutSecrets(t *testing.T) {
	t.Setenv("SCALE_MAX", "5")
	t.Setenv("SCALE_MIN", "2")
	var all cli
	parser, err := kong.New(&all, kong.Vars{"version": "v", "orSeveral": "", "loadMix": "", "session": "4s"})
	if err != nil {
		t.Fatal(err)
	}
	kctx, err := parser.Parse([]string{"up", "--scale-min", "3", "--bus", "amqp://ann:hush@localhost:5672/v?key=hush", "--auth-file", "/run/auth", "--allowed-hosts", "a,b"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]settings.Setting{}
	for _, s := range effective(kctx) {
		got[s.Name] = s
		if strings.Contains(s.Value, "hush") {
			t.Errorf("%s shows a secret: %s", s.Name, s.Value)
		}
	}
	for _, want := range []settings.Setting{
		{Name: "--scale-min", Env: "SCALE_MIN", Value: "3", Source: "flag"},
		{Name: "--scale-max", Env: "SCALE_MAX", Value: "5", Source: "environment"},
		{Name: "--scale-policy", Env: "SCALE_POLICY", Value: "reads", Source: "default"},
		{Name: "--bus", Env: "RIDESHARE_BUS", Value: "amqp://ann:xxxxx@localhost:5672/v?hidden", Source: "flag"},
		{Name: "--auth-file", Env: "AUTH_FILE", Value: "/run/auth", Source: "flag"},
		{Name: "--allowed-hosts", Env: "ALLOWED_HOSTS", Value: "a,b", Source: "flag"},
	} {
		if got[want.Name] != want {
			t.Errorf("got %+v, want %+v", got[want.Name], want)
		}
	}
}

// A log line has the settings that are not the default.
func TestChanged_WithoutDefaults(t *testing.T) {
	got := changed([]settings.Setting{{Name: "--a", Value: "1", Source: "flag"}, {Name: "--b", Value: "2", Source: "default"}, {Name: "--c", Value: "(hidden)", Source: "environment"}})
	if want := []string{"--a=1 (flag)", "--c=(hidden) (environment)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A list of URLs shows each of them, with its name if it has one, and without passwords and queries.
func TestShown(t *testing.T) {
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"admin-password", "hush", "(hidden)"},
		{"bus", "amqp://a:hush@[", "(hidden)"},
		{"bus", "amqp://a:hu,sh@h", "amqp://a:xxxxx@h"},
		{"persdb-url", "http://h1:9530,http://h2:9530", "http://h1:9530,http://h2:9530"},
		{"persdb-url", "https://a:hush@h1,https://a:hush@h2?key=hush", "https://a:xxxxx@h1,https://a:xxxxx@h2?hidden"},
		{"persdb-url", "http://h1:9530,http://a:hush@[", "http://h1:9530,(hidden)"},
		{"launcher", "process", "process"},
		{"launcher", "unix:///run/a=b.sock", "unix:///run/a=b.sock"},
		{"launcher", "a=https://h1:9600,b-2=https://a:hush@h2:9600", "a=https://h1:9600,b-2=https://a:xxxxx@h2:9600"},
		{"users-url", []string{"http://h1:1", "http://a:hush@h2:1"}, "http://h1:1,http://a:xxxxx@h2:1"},
		{"allowed-hosts", []string{"a", "b"}, "a,b"},
	} {
		if got := shown(test.name, test.value); got != test.want {
			t.Errorf("%s %v: got %q, want %q", test.name, test.value, got, test.want)
		}
	}
}

// licenceOf names the licences of a text by what only they say.
func licenceOf(text string) string {
	var found []string
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ name, says string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License Version 2.0"},
		{"BSD-3-Clause", "Neither the name"},
		{"BSD-3-Clause", "may be used to endorse or promote products"},
		{"BSD-2-Clause", "Redistributions in binary form"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
	} {
		same := slices.ContainsFunc(found, func(name string) bool { return name[:3] == known.name[:3] }) // BSD
		if strings.Contains(text, known.says) && !same {
			found = append(found, known.name)
		}
	}
	return cmp.Or(strings.Join(found, ", "), "unknown")
}

// The list of licences has every module in the binary, with the licence in that module's own text.
func TestLicences_AreThoseOfTheModules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if module == "" || seen[module] {
			continue
		}
		seen[module] = true
		var text []byte
		for _, name := range []string{"LICENSE*", "LICENCE*", "COPYING*"} {
			files, _ := filepath.Glob(filepath.Join(dir, name)) // the pattern is well formed
			if len(files) > 0 && text == nil {                  // the first by name; others are those of what the module copied
				text, _ = os.ReadFile(files[0]) // unknown if it has no text
			}
		}
		licence := licenceOf(string(text))
		if licence == "unknown" {
			t.Errorf("%s: the licence in %s is not known to this test", module, dir)
		}
		lines = append(lines, module+" "+licence+"\n")
	}
	slices.Sort(lines)
	list := strings.Join(lines, "")
	const file = "../../orchestrator/console/licences.txt"
	if *update {
		if err = os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != list {
		t.Errorf("the list is not that of the modules; go test ./cmd/rideshare -run Licences -update writes it (%v)", err)
	}
}
