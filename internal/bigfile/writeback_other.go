//go:build !linux

package bigfile

import "os"

// beginWriteBack does nothing: only Linux has this function.
func beginWriteBack(*os.File, int64, int64) {}
