package commitlog

import (
	"errors"
	"os"
)

// files holds the file operations by which the store makes data durable outside the engine's own files. Tests replace
// it by a disk that loses power.
type files struct {
	sync   func(path string) error
	rename func(from, to string) error
}

// syncPath makes a file, or the entries of a directory, durable.
func syncPath(path string) error {
	f, err := os.Open(path) //nolint:gosec // the store's own file.
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
