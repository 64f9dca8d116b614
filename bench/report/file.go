package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CheckFolder returns an error if the folder of a report is missing, so that a run does not fail at its end. flag names the file, which
// may be "" for none.
func CheckFolder(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: there is no folder %s", flag, filepath.Dir(file))
	}
	return nil
}

// WriteFile writes a report to a file, if a file is given. An existing file is replaced.
func WriteFile(file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the user names it.
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write the report %s: %w", file, err)
	}
	return nil
}

// WriteJSON writes figures as JSON to a file, if a file is given.
func WriteJSON(file string, figures any) error {
	return WriteFile(file, func(w io.Writer) error { return EncodeJSON(w, figures) })
}

// EncodeJSON writes figures as indented JSON.
func EncodeJSON(w io.Writer, figures any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(figures)
}
