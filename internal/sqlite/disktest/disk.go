// Package disktest is a disk for tests that loses power: what was written and not synced is there afterwards, or not, or in part.
// It stands below internal/sqlite, in place of the file system through which the engine opens its files, and concerns only
// files under the directory of a Disk.
package disktest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// Kind is what is done to a file.
type Kind string

// The kinds. Those with Sync make what was done before durable.
const (
	Create   Kind = "create"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Remove   Kind = "remove"
	Rename   Kind = "rename"
	SyncDir  Kind = "sync directory"
)

// Op is one operation on a file of the disk, by its name relative to the disk's directory.
type Op struct {
	Kind Kind
	Name string
}

// Fault is how an operation fails.
type Fault int32

// The faults.
const (
	None Fault = lib.SQLITE_OK
	Full Fault = lib.SQLITE_FULL // no room
)

var errOff = errors.New("the disk is off")

// Disk is a directory whose files lose what was not synced when the power goes.
type Disk struct {
	dir string

	mu    sync.Mutex
	names map[string][]*inode // what a name stood for since its directory was synced, oldest first; nil for nothing
	left  int                 // operations until the disk goes off; 0 for never
	off   bool
	last  Op // with which it went off
	lies  bool
	fault func(Op) Fault
}

// inode is the content of a file: what is durable, and what was done since.
type inode struct {
	durable []byte
	since   []change
	outside bool // not written through the engine
}

// change is a write, or a truncation if there is no data.
type change struct {
	at   int64
	data []byte
}

func (c change) apply(b []byte) []byte {
	end := c.at + int64(len(c.data))
	if grow := end - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if c.data == nil {
		return b[:end]
	}
	copy(b[c.at:], c.data)
	return b
}

func libcSize(n uintptr) types.Size_t { return types.Size_t(n) }

// New returns a disk with an empty directory, in memory where there is such a place. The test's end removes it.
func New(tb testing.TB) *Disk {
	tb.Helper()
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = tb.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "rideshare-disk-") //nolint:usetesting // in memory, where a test's own directory is not.
	if err != nil {
		tb.Fatal(err)
	}
	d := &Disk{dir: dir, names: map[string][]*inode{}}
	disks.Lock()
	defer disks.Unlock()
	disks.list = append(disks.list, d)
	tb.Cleanup(func() {
		disks.Lock()
		defer disks.Unlock()
		for i := range disks.list {
			if disks.list[i] == d {
				disks.list = append(disks.list[:i:i], disks.list[i+1:]...)
				break
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// Dir is the disk's directory.
func (d *Disk) Dir() string { return d.dir }

// CutAfter lets the disk go off with the nth operation from now; never if n is 0. From then on all operations fail.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Off reports whether the disk is off, and with which operation it went off.
func (d *Disk) Off() (off bool, last Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off, d.last
}

// Lie makes every sync answer well and do nothing.
func (d *Disk) Lie() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = true
}

// SetFault has f called before each operation; it says how that fails, or waits as a slow disk does.
func (d *Disk) SetFault(f func(Op) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// begin starts an operation. last says that it is the one with which the disk goes off: it is done, and nobody is told.
func (d *Disk) begin(op Op) (rc int32, last bool) {
	d.mu.Lock()
	fault := d.fault
	d.mu.Unlock()
	if fault != nil {
		if f := fault(op); f != None {
			return int32(f), false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return lib.SQLITE_IOERR, false
	}
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.lookAround() // what happens later happens on no disk
			d.off, d.last = true, op
			return lib.SQLITE_IOERR, true
		}
	}
	return lib.SQLITE_OK, false
}

// current returns what a name stands for now. The caller holds mu, as with all that follow.
func (d *Disk) current(name string) *inode {
	if list := d.names[name]; len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

func (d *Disk) become(name string, f *inode) {
	if len(d.names[name]) == 0 {
		d.names[name] = []*inode{nil}
	}
	d.names[name] = append(d.names[name], f)
}

// lookAround notes what was done to files without the engine: they are there, gone, or other than before.
func (d *Disk) lookAround() {
	for name := range d.names {
		if _, err := os.Lstat(filepath.Join(d.dir, name)); err != nil && d.current(name) != nil {
			d.become(name, nil)
		}
	}
	_ = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(d.dir, path)
		if err != nil || relErr != nil || !e.Type().IsRegular() || strings.HasSuffix(name, "-shm") {
			return nil //nolint:nilerr // a file that goes meanwhile is no file.
		}
		f := d.current(name)
		if f == nil {
			f = &inode{outside: true}
			d.become(name, f)
		}
		if f.outside {
			if b, err := os.ReadFile(path); err == nil && string(b) != string(f.content()) {
				f.since = append(f.since, change{at: 0}, change{at: 0, data: b})
			}
		}
		return nil
	})
}

// content is what a reader of the file finds.
func (f *inode) content() []byte {
	b := append([]byte{}, f.durable...)
	for _, c := range f.since {
		b = c.apply(b)
	}
	return b
}

func (d *Disk) absent(name string) bool {
	_, err := os.Lstat(filepath.Join(d.dir, name))
	return err != nil
}

// opened returns the content of a file that the engine has opened.
func (d *Disk) opened(name string, created bool) *inode {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasSuffix(name, "-shm") {
		return &inode{}
	}
	f := d.current(name)
	if created || f == nil {
		f = &inode{}
		d.become(name, f)
	}
	return f
}

func (d *Disk) changed(f *inode, c change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.since = append(f.since, c)
}

func (d *Disk) synced(f *inode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(f)
}

func (d *Disk) keep(f *inode) {
	if d.lies {
		return
	}
	for _, c := range f.since {
		f.durable = c.apply(f.durable)
	}
	f.since = nil
}

func (d *Disk) removed(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.become(name, nil)
}

func (d *Disk) syncedDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keepDir(dir)
}

func (d *Disk) keepDir(dir string) {
	if d.lies {
		return
	}
	d.lookAround()
	for name, list := range d.names {
		if filepath.Dir(name) == dir {
			d.names[name] = list[len(list)-1:]
		}
	}
}
