package main

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"rideshare/internal/settings"
)

// withoutEnvironment has the flags without an environment variable, and why they have none.
var withoutEnvironment = map[string]string{
	"rideshare backup --force":  "a variable that is left over would replace files",
	"rideshare restore --at":    "a variable that is left over would bring back an old state",
	"rideshare restore --seq":   "as --at",
	"rideshare shell --command": "a variable that is left over would run statements",
	"rideshare user --token":    "the name of a variable for it would read like the token itself",
	"--quiet":                   "LOG_LEVEL has it",
	"--verbose":                 "LOG_LEVEL has it",
}

// Every visible flag has an environment variable, but for the exceptions, and no exception is out of date.
func TestFlags_HaveAnEnvironmentVariable(t *testing.T) {
	var all cli
	parser, err := kong.New(&all, kong.Name("rideshare"), kong.Vars{"version": "v", "orSeveral": "", "loadMix": "", "session": "4s"})
	if err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(withoutEnvironment)
	var visit func(*kong.Node)
	visit = func(node *kong.Node) {
		for _, f := range node.Flags {
			if f.Hidden || f.Name == "help" || f.Name == "version" || len(f.Envs) > 0 {
				continue
			}
			here, everywhere := node.FullPath()+" --"+f.Name, "--"+f.Name
			if withoutEnvironment[here]+withoutEnvironment[everywhere] == "" {
				t.Errorf("%s has no environment variable", here)
			}
			delete(unused, here)
			delete(unused, everywhere)
		}
		for _, child := range node.Children {
			if !child.Hidden {
				visit(child)
			}
		}
	}
	visit(parser.Model.Node)
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s has an environment variable, or does not exist", name)
	}
}

// The file of a flag counts before the user of the environment, and a user before a file otherwise.
func TestAuthorization_FlagBeforeEnvironment(t *testing.T) {
	t.Setenv(envPassword, "hush")
	file := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(file, []byte("bearer abcdefghijklmnopqrstuvwxyz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ann := http.Request{Header: http.Header{}}
	ann.SetBasicAuth("ann", "hush")
	const bearer = "Bearer abcdefghijklmnopqrstuvwxyz"
	for _, tt := range []struct{ file, user, want string }{
		{"flag", "environment", bearer},
		{"flag", "flag", ann.Header.Get("Authorization")},
		{"environment", "flag", ann.Header.Get("Authorization")},
		{"environment", "environment", ann.Header.Get("Authorization")},
	} {
		out := &output{settings: []settings.Setting{{Name: "--auth-file", Source: tt.file}, {Name: "--user", Source: tt.user}}}
		if got, err := (clientSettings{AuthFile: file, User: "ann"}).authorization(t.Context(), out); err != nil || got != tt.want {
			t.Errorf("file from %s, user from %s: got %q, %v, want %q", tt.file, tt.user, got, err, tt.want)
		}
	}
}
