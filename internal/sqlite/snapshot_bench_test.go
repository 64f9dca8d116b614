package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"rideshare/internal/testkit/sqlitetest"
)

// BenchmarkSnapshot compares reading the pages with VACUUM INTO of the same file.
func BenchmarkSnapshot(b *testing.B) {
	path := benchFile(b)
	c := benchOwn(b, path, false)
	copies := 0
	to := func() string {
		copies++
		return filepath.Join(b.TempDir(), fmt.Sprintf("copy%d.db", copies))
	}
	b.Run("Pages", func(b *testing.B) {
		for b.Loop() {
			sqlitetest.Snapshot(b, path, to())
		}
	})
	b.Run("VacuumInto", func(b *testing.B) {
		for b.Loop() {
			must(b, c.Exec("VACUUM INTO '"+to()+"'"))
		}
	})
}
