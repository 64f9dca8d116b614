package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rideshare/internal/wait"
)

// unfinished is the folder of files that are being written, below the archive's folder.
const unfinished = ".unfinished"

// folder is a Place in the file system. An object is a file below the folder.
type folder struct{ dir string }

// Folder returns the place in a folder. The folder is created with the first object.
func Folder(dir string) Place { return folder{dir} }

func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Create implements Place. If two processes store the same name concurrently, both may succeed. One of the two objects
// remains, whole.
func (f folder) Create(ctx context.Context, name string, body io.Reader) error {
	switch _, err := os.Lstat(f.path(name)); {
	case err == nil:
		return fmt.Errorf("%s: %w", name, ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return f.Replace(ctx, name, body)
}

// Replace implements Place: it writes a file of another name, syncs and renames it, and syncs the folder.
func (f folder) Replace(ctx context.Context, name string, body io.Reader) (err error) {
	if err = makeDir(filepath.Join(f.dir, unfinished)); err != nil {
		return err
	}
	if err = makeDir(filepath.Dir(f.path(name))); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Join(f.dir, unfinished), "*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // has no effect once the file is renamed.
	_, err = io.Copy(file, heard{ctx, body})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), f.path(name)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path(name)))
}

// Open implements Place.
func (f folder) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	file, err := os.Open(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return readCloser{heard{ctx, file}, file}, nil
}

// List implements Place.
func (f folder) List(ctx context.Context, prefix string) ([]Object, error) {
	var objects []Object
	err := filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the entry was removed after its folder was read, or f.dir does not exist yet
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || path == f.dir {
			return err
		}
		relative, err := filepath.Rel(f.dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if entry.IsDir() {
			if name == unfinished || !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasPrefix(name, prefix) {
			return nil
		}
		wait.ReportProgress(ctx)
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			objects = append(objects, Object{Name: name, Bytes: info.Size(), Modified: info.ModTime()})
		}
		return err
	})
	return objects, err
}

// Remove implements Place.
func (f folder) Remove(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveUnfinished implements Place.
func (f folder) RemoveUnfinished(_ context.Context, before time.Time) error {
	dir := filepath.Join(f.dir, unfinished)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.ModTime().Before(before) {
			err = os.Remove(filepath.Join(dir, entry.Name()))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// makeDir makes a folder and the missing ones above it, durably.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator's choice.
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// heard reports the progress of reading body, and fails once ctx has ended.
type heard struct {
	ctx  context.Context // of the call or of the body that is read
	body io.Reader
}

func (h heard) Read(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, context.Cause(h.ctx)
	}
	n, err := h.body.Read(p)
	if n > 0 {
		wait.ReportProgress(h.ctx)
	}
	return n, err
}

// readCloser reads from Reader and closes Closer.
type readCloser struct {
	io.Reader
	io.Closer
}
