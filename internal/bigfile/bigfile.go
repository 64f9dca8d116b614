// Package bigfile writes and removes large files in small steps. An fsync waits for all pending work of the disk, for
// any file: writing or freeing 200 MiB in one go made other fsyncs take 40 to 190 ms (docs/PERFORMANCE.md). RocksDB has
// the same two remedies: bytes_per_sync and the deletion rate of its SstFileManager.
package bigfile

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"rideshare/internal/wait"
)

const (
	// writeBytes is how much is written to the file before the kernel is asked to write it to the disk.
	writeBytes = 1 << 20
	// cutBytes is the size freed per step, and cutRest the time between steps: at most 400 MiB/s.
	cutBytes = 4 << 20
	cutRest  = 10 * time.Millisecond
)

// Writer writes a file from its start, and makes the kernel write the data to the disk early; by default the kernel
// would collect data for 30 s. Writer does not wait for the disk, so it adds no durability. It is not safe for
// concurrent use.
type Writer struct {
	file           *os.File
	written, begun int64
}

var _ io.Writer = (*Writer)(nil)

// NewWriter returns a Writer on file, which must be empty.
func NewWriter(file *os.File) *Writer { return &Writer{file: file} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.written += int64(n)
	if gathered := w.written - w.begun; gathered >= writeBytes {
		beginWriteBack(w.file, w.begun, gathered)
		w.begun = w.written
	}
	return n, err
}

// RemoveAll removes path and everything below it, like os.RemoveAll, but first truncates large files step by step. When
// ctx ends it removes the rest immediately. The files must not be in use: a process that has such a file mapped into
// memory would be killed.
func RemoveAll(ctx context.Context, path string) error {
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			cut(ctx, name)
		}
		return err
	}) // files that could not be truncated are removed whole.
	return os.RemoveAll(path)
}

// cut truncates a file until it is small.
func cut(ctx context.Context, name string) {
	info, err := os.Lstat(name)
	if err != nil {
		return
	}
	for size := info.Size() - cutBytes; size > 0; size -= cutBytes {
		if os.Truncate(name, size) != nil || !wait.For(ctx, cutRest) {
			return
		}
	}
}
