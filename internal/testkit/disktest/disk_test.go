package disktest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/disktest"
)

// remain writes to a disk, makes it lose power in many ways, and returns how often each content was left of a file; "-"
// means no file.
func remain(t *testing.T, file string, write func(d *disktest.Disk, path string) error) map[string]int {
	t.Helper()
	left := map[string]int{}
	for seed := range uint64(50) {
		d := disktest.New(t)
		path := filepath.Join(d.Dir(), file)
		if err := write(d, path); err != nil {
			t.Fatal(err)
		}
		if err := d.LosePower(rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			b = []byte("-")
		}
		left[string(b)]++
	}
	return left
}

// A new file has its content after a sync of it, and its name after one of its directory.
func TestDisk_LosePower_NewFile(t *testing.T) {
	create := func(path string) error { return os.WriteFile(path, []byte("new"), 0o600) }
	for name, c := range map[string]struct {
		write func(d *disktest.Disk, path string) error
		want  []string
	}{
		"NothingSynced":   {func(_ *disktest.Disk, path string) error { return create(path) }, []string{"-", "", "new"}},
		"ContentSynced":   {func(d *disktest.Disk, path string) error { return firstOf(create(path), d.SyncPath(path)) }, []string{"-", "new"}},
		"DirectorySynced": {func(d *disktest.Disk, path string) error { return firstOf(create(path), d.SyncPath(d.Dir())) }, []string{"", "new"}},
		"BothSynced": {func(d *disktest.Disk, path string) error {
			return firstOf(create(path), d.SyncPath(path), d.SyncPath(d.Dir()))
		}, []string{"new"}},
		"Renamed": {func(d *disktest.Disk, path string) error {
			other := path + ".new"
			return firstOf(os.WriteFile(path, []byte("old"), 0o600), os.WriteFile(other, []byte("new"), 0o600), d.SyncPath(path), d.SyncPath(other),
				d.SyncPath(d.Dir()), d.Rename(other, path))
		}, []string{"old", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			left := remain(t, "file", c.write)
			for _, want := range c.want {
				if left[want] == 0 {
					t.Errorf("%q was never left, only %v", want, left)
				}
				delete(left, want)
			}
			if len(left) > 0 {
				t.Errorf("left was also %v", left)
			}
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// After an overwrite each sector may have the old or the new content.
func TestDisk_LosePower_TornWrite(t *testing.T) {
	mixed := 0
	for left := range remain(t, "file", func(d *disktest.Disk, path string) error {
		if err := firstOf(os.WriteFile(path, bytes.Repeat([]byte("o"), 2048), 0o600), d.SyncPath(path), d.SyncPath(d.Dir())); err != nil {
			return err
		}
		return os.WriteFile(path, bytes.Repeat([]byte("n"), 2048), 0o600)
	}) {
		sectors := map[byte]int{}
		for i := 0; i < len(left); i += 512 {
			end := min(i+512, len(left))
			if left[i:end] != string(bytes.Repeat([]byte{left[i]}, end-i)) {
				t.Errorf("sector at %d is torn", i)
			}
			sectors[left[i]]++
		}
		if len(sectors) > 1 {
			mixed++
		}
	}
	if mixed == 0 {
		t.Error("no write was torn")
	}
}

// What the engine commits is there if the connection is durable; without that it may be lost.
func TestDisk_LosePower_Commit(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprint("Durable", durable), func(t *testing.T) {
			lost := 0
			for seed := range uint64(30) {
				if !survives(t, durable, seed) {
					lost++
				}
			}
			if durable != (lost == 0) {
				t.Errorf("%d of 30 commits were lost", lost)
			}
		})
	}
}

func survives(t *testing.T, durable bool, seed uint64) bool {
	t.Helper()
	d := disktest.New(t)
	path := filepath.Join(d.Dir(), "t.db")
	c, err := sqlite.Open(path, sqlite.Options{Durable: durable})
	if err != nil {
		t.Fatal(err)
	}
	err = firstOf(d.SyncPath(d.Dir()), c.Exec("CREATE TABLE x AS SELECT 1 AS v"), d.SyncPath(d.Dir())) // its names are there in any case
	d.CutAfter(1)
	_ = c.Close() // the checkpoint that it would make does not get far
	if err = firstOf(err, d.LosePower(rand.New(rand.NewPCG(seed, 0)))); err != nil {
		t.Fatal(err)
	}
	if c, err = sqlite.Open(path, sqlite.Options{Durable: true}); err != nil {
		return false
	}
	rows := 0
	err = c.Query("SELECT v FROM x", func(sqlite.Row) error { rows++; return nil })
	if closed := c.Close(); closed != nil {
		t.Fatal(closed)
	}
	return err == nil && rows == 1
}
