package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"rideshare/internal/sqlite"
)

// versionCommand is `rideshare version`.
type versionCommand struct{}

// Run prints the versions of what the binary consists of.
func (*versionCommand) Run(out *output) error {
	return printVersion(out.stdout, built())
}

// build says what the binary was built from.
type build struct {
	module, commit, binding string
}

// built reads the build information that the Go tool wrote into the binary. A missing field is "unknown", as in a build
// outside a checkout.
func built() build {
	b := build{module: "unknown", commit: "unknown", binding: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.module = info.Main.Version
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", with changes that are not committed"
		}
	}
	b.commit += modified
	for _, m := range info.Deps {
		if m.Path == "modernc.org/sqlite" {
			b.binding = m.Version
		}
	}
	return b
}

func printVersion(w io.Writer, b build) error {
	_, err := fmt.Fprintf(w, "rideshare  %s\nmodule     %s\ncommit     %s\nGo         %s %s/%s\nSQLite     %s (modernc.org/sqlite %s)\n",
		version, b.module, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version, b.binding)
	return err
}
