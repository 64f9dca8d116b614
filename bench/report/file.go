package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

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
