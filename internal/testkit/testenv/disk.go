package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Disk is a separate file system for one test at Dir, which the test may fill and break. It is removed at the end of
// the test, after everything that the test starts later. It needs Linux and root. Without them the test fails if CI
// is set; otherwise it is skipped with a visible message.
type Disk struct {
	Dir string

	filler string
}

// MemoryDisk mounts a disk of that many bytes at dir, which it creates.
func MemoryDisk(tb testing.TB, dir string, size int64) *Disk {
	tb.Helper()
	return mount(tb, dir, "-t", "tmpfs", "-o", "size="+strconv.FormatInt(size, 10), "tmpfs")
}

// FailingDisk mounts a disk of that many bytes, which supports Fail, at dir, which it creates.
func FailingDisk(tb testing.TB, dir string, size int64) *Disk {
	tb.Helper()
	device := filepath.Join(tb.TempDir(), "device")
	if err := errors.Join(os.WriteFile(device, nil, 0o600), os.Truncate(device, size)); err != nil {
		tb.Fatal(err)
	}
	if _, err := Command(tb.Context(), "", nil, "mkfs.ext4", "-q", device); err != nil {
		Cannot(tb, false, "no disk that can fail: %v", err)
	}
	return mount(tb, dir, "-o", "loop,errors=remount-ro", device)
}

func mount(tb testing.TB, dir string, args ...string) *Disk {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		tb.Fatal(err)
	}
	if _, err := Command(tb.Context(), "", nil, "mount", append(args, dir)...); err != nil {
		Cannot(tb, false, "no disk of the test's own, which needs Linux and root: %v", err)
	}
	tb.Cleanup(func() { _, _ = Command(context.Background(), "", nil, "umount", "-l", dir) }) // the test may already have done it
	return &Disk{Dir: dir, filler: filepath.Join(dir, "filler")}
}

// Fill fills the disk completely until Free.
func (d *Disk) Fill(tb testing.TB) {
	tb.Helper()
	f, err := os.Create(d.filler)
	if err != nil {
		tb.Fatal(err)
	}
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(chunk)
	}
	if closed := f.Close(); !errors.Is(err, syscall.ENOSPC) || closed != nil {
		tb.Fatalf("fill the disk: got %v and %v, want no room", err, closed)
	}
}

// Free ends a Fill.
func (d *Disk) Free(tb testing.TB) {
	tb.Helper()
	if err := os.Remove(d.filler); err != nil {
		tb.Fatal(err)
	}
}

// Fail makes a failing disk refuse all later changes, as the kernel does when it finds a file system damaged. Its
// contents can still be read. There is no other way to make a disk with open files read-only.
func (d *Disk) Fail(tb testing.TB) {
	tb.Helper()
	source, err := Command(tb.Context(), "", nil, "findmnt", "-n", "-o", "SOURCE", d.Dir)
	if err == nil {
		device := filepath.Base(strings.TrimSpace(source))
		err = os.WriteFile("/sys/fs/ext4/"+device+"/trigger_fs_error", []byte("fault test"), 0)
	}
	if err != nil {
		Cannot(tb, false, "the disk cannot be made to fail: %v", err)
	}
	if err = os.WriteFile(d.filler, nil, 0o600); !errors.Is(err, syscall.EROFS) {
		tb.Fatalf("a change of a disk that has failed: got %v, want %v", err, syscall.EROFS)
	}
}

// Replace unmounts the disk and puts a directory with a copy of its contents in its place.
func (d *Disk) Replace(tb testing.TB) {
	tb.Helper()
	replacement := filepath.Join(filepath.Dir(d.Dir), "replacement")
	err := os.CopyFS(replacement, os.DirFS(d.Dir))
	if err == nil {
		_, err = Command(tb.Context(), "", nil, "umount", "-l", d.Dir)
	}
	if err = errors.Join(err, os.Remove(d.Dir), os.Rename(replacement, d.Dir)); err != nil {
		tb.Fatal(err)
	}
}
