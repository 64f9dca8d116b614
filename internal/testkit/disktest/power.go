package disktest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	lib "modernc.org/sqlite/lib"
)

// sector is the unit that a disk writes completely or not at all.
const sector = 512

// SyncPath syncs a file, or the entries of a directory. It is for code that writes files without the engine.
func (d *Disk) SyncPath(path string) error {
	name, err := filepath.Rel(d.dir, path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	op := Op{Sync, name}
	if info.IsDir() {
		op.Kind = SyncDir
	}
	if rc, _ := d.begin(op); rc != lib.SQLITE_OK {
		return errOff
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if info.IsDir() {
		d.keepDir(name)
		return nil
	}
	d.lookAround()
	d.keep(d.current(name))
	return nil
}

// Rename renames a file, without a sync.
func (d *Disk) Rename(from, to string) error {
	a, err := filepath.Rel(d.dir, from)
	if err != nil {
		return err
	}
	b, err := filepath.Rel(d.dir, to)
	if err != nil {
		return err
	}
	rc, last := d.begin(Op{Rename, a})
	if rc != lib.SQLITE_OK && !last {
		return errOff
	}
	if err = os.Rename(from, to); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.become(b, d.current(a))
	d.become(a, nil)
	if last {
		return errOff
	}
	return nil
}

// Restart switches the disk on again with all files as they were left, as after a death of the process but not of the
// machine.
func (d *Disk) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.left = false, 0
}

// LosePower sets the files to a possible state after a loss of power, as chosen by rng, and switches the disk on again.
// A file keeps what was synced, and any part, sector by sector, of what was written since. A name refers to the file it
// had when its directory was synced, or to any file it had since. No file may be open.
func (d *Disk) LosePower(rng *rand.Rand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		d.lookAround()
	}
	chances := []float64{0, 0.1, 0.5, 0.9, 1}
	entries, sectors := []float64{0, 0.5, 0.5, 1}[rng.IntN(4)], chances[rng.IntN(len(chances))]
	after := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		list := d.names[name]
		f := list[0]
		for _, later := range list[1:] {
			if rng.Float64() < entries {
				f = later
			}
		}
		if f != nil {
			after[name] = f.remains(rng, sectors)
		}
	}
	old, err := filepath.Glob(filepath.Join(d.dir, "*"))
	for _, path := range old {
		err = errors.Join(err, os.RemoveAll(path))
	}
	d.names = map[string][]*inode{}
	for name, content := range after {
		path := filepath.Join(d.dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
		d.names[name] = []*inode{{durable: content}}
	}
	d.off, d.left = false, 0
	return err
}

// remains returns what a loss of power leaves of a file: each sector of each write since the last sync survives with
// probability chance.
func (f *inode) remains(rng *rand.Rand, chance float64) []byte {
	b := append([]byte{}, f.durable...)
	for _, c := range f.since {
		if c.data == nil {
			if rng.Float64() < chance {
				b = c.apply(b)
			}
			continue
		}
		whole, torn := rng.Float64() < chance, rng.IntN(2) == 0
		for from := int64(0); from < int64(len(c.data)); {
			to := min((c.at+from)/sector*sector+sector-c.at, int64(len(c.data)))
			if torn && rng.Float64() < chance || !torn && whole {
				b = change{c.at + from, c.data[from:to]}.apply(b)
			}
			from = to
		}
	}
	return b
}
