package bigfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(file)
	piece := bytes.Repeat([]byte("0123456"), 50_000) // 350,000 bytes: the fourth one is past writeBytes.
	var want []byte
	for range 10 {
		if n, failed := w.Write(piece); n != len(piece) || failed != nil {
			t.Fatalf("got %d, %v, want %d", n, failed, len(piece))
		}
		want = append(want, piece...)
	}
	if begun := int64(9 * len(piece)); w.begun != begun {
		t.Errorf("got write-back of %d bytes begun, want %d", w.begun, begun)
	}
	if err = file.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes (%v), want the %d that were written", len(got), err, len(want))
	}
	if n, err := w.Write(piece); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: got %d, %v, want %v", n, err, os.ErrClosed)
	}
}

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		size   int64
		endsAt time.Duration
		took   time.Duration
	}{
		{"empty", 0, time.Hour, 0},
		{"small", cutBytes, time.Hour, 0},
		{"bit by bit", 5*cutBytes + 1, time.Hour, 5 * cutRest},
		{"cut off", 100 * cutBytes, 3 * cutRest, 3 * cutRest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			name := filepath.Join(dir, "below", "file")
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600), os.Truncate(name, c.size)); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.endsAt)
				defer cancel()
				start := time.Now()
				if err, took := RemoveAll(ctx, dir), time.Since(start); err != nil || took != c.took {
					t.Errorf("got %v after %v, want nil after %v", err, took, c.took)
				}
			})
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want the directory gone", err)
			}
		})
	}
}

// Removing a missing path is no error; the target of a link is not touched.
func TestRemoveAll_NothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := RemoveAll(t.Context(), filepath.Join(dir, "missing")); err != nil {
		t.Errorf("missing: %v", err)
	}
	others, mine := filepath.Join(dir, "others"), filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(others, nil, 0o600), os.Truncate(others, 3*cutBytes), os.Mkdir(mine, 0o700), os.Symlink(others, filepath.Join(mine, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(t.Context(), mine); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(others); err != nil || info.Size() != 3*cutBytes {
		t.Errorf("got %v, %v, want the other file as it was", info, err)
	}
}
