package shell

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
)

// backup writes an SQLite file.
func (s *shell) backup(ctx context.Context, _ *bufio.Writer, args []string) error {
	return s.download(ctx, url.Values{}, args[0])
}

// dump writes the database or some tables as SQL.
func (s *shell) dump(ctx context.Context, _ *bufio.Writer, args []string) error {
	query := url.Values{"fmt": {"sql"}}
	if len(args) > 1 {
		query.Set("tables", args[1])
	}
	return s.download(ctx, query, args[0])
}

// backupPath is the route of backups.
const backupPath = "/db/backup"

// download writes the answer of /db/backup to a file, which is replaced.
func (s *shell) download(ctx context.Context, query url.Values, file string) error {
	if err := checkTarget(file); err != nil {
		return err
	}
	resp, err := s.send(ctx, call{method: http.MethodGet, path: backupPath, query: query, transfer: true})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	return writeWhole(file, resp.Body, func() error { return nil })
}

// checkTarget returns an error if file exists and is not a regular file.
func checkTarget(file string) error {
	info, err := os.Lstat(file)
	switch {
	case file == Stdout || errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", file)
	}
	return err
}

// writeWhole writes body to a file that appears complete or not at all. It writes a temporary file beside it, and renames
// that if last returns nil. If the process dies in between, only the temporary file stays.
func writeWhole(file string, body io.Reader, last func() error) error {
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*.part")
	if err != nil {
		return err
	}
	_, copied := io.Copy(temp, body)
	if err = errors.Join(copied, temp.Sync(), temp.Close()); err == nil {
		err = last()
	}
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("%s is not written: %w", file, errors.Join(err, os.Remove(temp.Name())))
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder makes a rename in the folder durable.
func syncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // the user names it.
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load sends a file to /db/load. The server recognizes the kind of file, and may refuse it before all of it has arrived. A load
// without an answer is sent once more, under the same key: it takes effect once.
func (s *shell) load(ctx context.Context, out *bufio.Writer, args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose.
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", args[0])
	}
	k := call{method: http.MethodPost, path: "/db/load", size: info.Size(), kind: "application/octet-stream", transfer: true, key: rand.Text()}
	k.body = io.NewSectionReader(f, 0, k.size)
	r, err := s.result(ctx, k)
	if errors.Is(err, errUnknown) && ctx.Err() == nil {
		k.body, k.again = io.NewSectionReader(f, 0, k.size), true
		r, err = s.result(ctx, k)
	}
	if err != nil {
		return err
	}
	return s.show(out, r)
}
