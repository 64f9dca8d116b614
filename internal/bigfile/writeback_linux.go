package bigfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// beginWriteBack makes the kernel start writing a part of a file to the disk (sync_file_range(2)).
func beginWriteBack(file *os.File, from, length int64) {
	_ = unix.SyncFileRange(int(file.Fd()), from, length, unix.SYNC_FILE_RANGE_WRITE) // a hint; not all file systems know it.
}
