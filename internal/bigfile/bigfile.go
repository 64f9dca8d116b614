// Package bigfile writes and removes large files a bit at a time. Whoever waits for an fsync
// waits for all that the disk has to do, whosever it is: 200 MiB that were written or freed at once made
// others' fsyncs take 40 to 190 ms (docs/PERFORMANCE.md). RocksDB has the same two remedies, as
// bytes_per_sync and as the deletion rate of its SstFileManager.
package bigfile

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"rideshare/internal/pause"
)

const (
	// writeBytes is what is gathered before the kernel is told to begin with it.
	writeBytes = 1 << 20
	// cutBytes is what is freed at once, and cutRest the time between: 400 MiB/s at most.
	cutBytes = 4 << 20
	cutRest  = 10 * time.Millisecond
)

// Writer writes to a file from its start, and has the kernel begin early to bring it to the disk; by
// itself it would gather for 30 s. It waits for nothing: what is written is no safer than without. It is for one goroutine.
type Writer struct {
	file           *os.File
	written, begun int64
}

var _ io.Writer = (*Writer)(nil)

// NewWriter returns a Writer on file, which is empty.
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

// RemoveAll removes path and everything below it as os.RemoveAll does, and cuts large files off
// from their ends before. When ctx ends it removes the rest at once. Nobody may use the files any more:
// who has one mapped to memory would be killed.
func RemoveAll(ctx context.Context, path string) error {
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			cut(ctx, name)
		}
		return err
	}) // what could not be cut is removed whole.
	return os.RemoveAll(path)
}

// cut makes a file small.
func cut(ctx context.Context, name string) {
	info, err := os.Lstat(name)
	if err != nil {
		return
	}
	for size := info.Size() - cutBytes; size > 0; size -= cutBytes {
		if os.Truncate(name, size) != nil || !pause.For(ctx, cutRest) {
			return
		}
	}
}
