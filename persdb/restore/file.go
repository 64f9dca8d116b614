package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
)

// FromFile makes the data folder cfg.Dir from an SQLite file such as GET /db/backup returns. The folder's log is empty:
// there are no stored answers, and positions begin at 0. The schema, the protected names and the limits come from cfg.
//
// Errors: ErrTarget for the folder; fs.ErrNotExist for the file; dbaas.CodeInvalid for a file that cannot be restored.
func FromFile(ctx context.Context, cfg commitlog.Config, file string) (made Made, err error) {
	f, err := os.Open(file) //nolint:gosec // the user names it.
	if err != nil {
		return Made{}, err
	}
	defer func() { _ = f.Close() }() // opened read-only: nothing can be lost.
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = dbaas.Errorf(dbaas.CodeInvalid, "it is not a regular file")
	}
	for _, suffix := range []string{"-wal", "-journal"} {
		side, absent := os.Stat(file + suffix)
		if err == nil && absent == nil && side.Size() > 0 {
			err = dbaas.Errorf(dbaas.CodeInvalid, "a part of its changes is in %s%s: let SQLite close the file, or make a backup of it", file, suffix)
		}
		if err == nil && absent != nil && !errors.Is(absent, fs.ErrNotExist) {
			err = absent
		}
	}
	if err == nil {
		made, err = build(ctx, cfg, commitlog.Seed{Tables: f, Foreign: true}, nil)
	}
	if err != nil && !errors.Is(err, ErrTarget) {
		return Made{}, fmt.Errorf("restore %s: %w", file, err)
	}
	return made, err
}
