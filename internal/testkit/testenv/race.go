package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CollectRaces makes processes started from now on write reports of the race detector to files in dir, wherever their
// output goes. The returned function returns an error with these reports, or nil if there are none.
// Other options in GORACE stay.
func CollectRaces(dir string) (found func() error, err error) {
	const name = "race-report"
	if err = os.Setenv("GORACE", os.Getenv("GORACE")+" log_path="+filepath.Join(dir, name)); err != nil {
		return nil, fmt.Errorf("collect race reports: %w", err)
	}
	return func() error {
		files, err := filepath.Glob(filepath.Join(dir, name+".*"))
		if err != nil {
			return fmt.Errorf("find race reports: %w", err)
		}
		for _, file := range files {
			text, ferr := os.ReadFile(file) //nolint:gosec // a file of the test's own.
			err = errors.Join(err, fmt.Errorf("%s: %s", filepath.Base(file), text), ferr)
		}
		return err
	}, nil
}
