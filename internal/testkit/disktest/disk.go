// Package disktest is a disk for tests that can lose power. Data that was written but not synced is then kept, lost, or
// kept in part. The disk replaces the file system through which internal/sqlite opens its files, but only for files under
// the directory of a Disk.
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

// Kind is the kind of an operation on a file.
type Kind string

// The kinds. The sync kinds make earlier operations durable.
const (
	Create   Kind = "create"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Remove   Kind = "remove"
	Rename   Kind = "rename"
	SyncDir  Kind = "sync directory"
)

// Op is one operation on a file of the disk; the file's name is relative to the disk's directory.
type Op struct {
	Kind Kind
	Name string
}

// Fault is how an operation fails.
type Fault int32

// The faults.
const (
	None     Fault = lib.SQLITE_OK
	Full     Fault = lib.SQLITE_FULL        // no room
	Broken   Fault = lib.SQLITE_IOERR_WRITE // the device fails
	Unsynced Fault = lib.SQLITE_IOERR_FSYNC // the device fails during a sync
)

var errOff = errors.New("the disk is off")

// Disk is a directory whose files lose unsynced data when the power goes.
type Disk struct {
	dir string

	mu    sync.Mutex
	names map[string][]*inode // the files that a name has had since its directory was synced, oldest first; nil for no file
	left  int                 // operations until the disk switches off; 0 for never
	off   bool
	last  Op // the operation with which it switched off
	lies  bool
	fault func(Op) Fault
}

// inode is the content of a file: the durable part, and the changes since.
type inode struct {
	durable []byte
	since   []change
	outside bool // written without the engine
}

// change is a write, or a truncation if it has no data.
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

// New returns a disk with an empty directory, in memory where possible. It is removed at the end of the test.
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

// Dir returns the disk's directory.
func (d *Disk) Dir() string { return d.dir }

// CutAfter switches the disk off with the nth operation from now; never if n is 0. From then on all operations fail.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Off reports whether the disk is off, and the operation with which it went off.
func (d *Disk) Off() (off bool, last Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off, d.last
}

// Lie makes every sync succeed without effect.
func (d *Disk) Lie() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = true
}

// SetFault makes the disk call f before each operation. f returns how the operation fails; it may also block, like a
// slow disk.
func (d *Disk) SetFault(f func(Op) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// begin starts an operation. last means that the disk switches off with this operation: it takes effect, but reports no
// success.
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
			d.lookAround() // later changes are not on the disk any more
			d.off, d.last = true, op
			return lib.SQLITE_IOERR, true
		}
	}
	return lib.SQLITE_OK, false
}

// current returns the file that a name refers to now. For this and all following functions, the caller holds mu.
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

// lookAround records changes made to files without the engine: files that are new, gone, or different.
func (d *Disk) lookAround() {
	for name := range d.names {
		if _, err := os.Lstat(filepath.Join(d.dir, name)); err != nil && d.current(name) != nil {
			d.become(name, nil)
		}
	}
	_ = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(d.dir, path)
		if err != nil || relErr != nil || !e.Type().IsRegular() || strings.HasSuffix(name, "-shm") {
			return nil //nolint:nilerr // a file that disappears during the call is no file.
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

// content returns what a reader of the file sees.
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
