package testenv

import (
	"errors"
	"os"
	"testing"
)

// Replace replaces a file in one step: no reader finds it empty or half written.
func Replace(tb testing.TB, path, text string) {
	tb.Helper()
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		tb.Fatal(err)
	}
}
