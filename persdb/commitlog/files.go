package commitlog

import (
	"errors"
	"os"
)

// files is what the store makes durable beside the engine's own files. Tests have a disk that loses power in its place.
type files struct {
	sync   func(path string) error
	rename func(from, to string) error
}

// syncPath makes a file durable, or the entries of a directory.
func syncPath(path string) error {
	f, err := os.Open(path) //nolint:gosec // the store's own file.
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
