package disktest

import (
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	_ "rideshare/internal/sqlite" // registers the file system that this package changes

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// product is the name of the file system that internal/sqlite registers.
const product = "rideshare\x00"

// journals are the kinds of files whose directory the engine syncs at their first sync.
// Source: https://www.sqlite.org/src/file/src/os_unix.c, UNIXFILE_DIRSYNC
const journals = lib.SQLITE_OPEN_MAIN_JOURNAL | lib.SQLITE_OPEN_SUPER_JOURNAL | lib.SQLITE_OPEN_WAL

// engine holds the original functions of the file system.
var engine struct{ open, remove uintptr }

// disks are the existing disks.
var disks struct {
	sync.RWMutex
	list []*Disk
}

// handles are the engine's open files on disks, by their address.
var handles sync.Map

// handle is one open file.
type handle struct {
	disk    *Disk
	name    string
	file    *inode
	syncDir bool // the next sync also syncs the directory
	methods *lib.Tsqlite3_io_methods
}

// methods are the methods of a file on a disk, for each method table of the engine.
var methods struct {
	sync.Mutex
	of map[uintptr]uintptr
}

// The file system is changed before any connection can be open.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	name := append([]byte{}, product...)
	p := lib.Xsqlite3_vfs_find(tls, uintptr(unsafe.Pointer(&name[0])))
	if p == 0 {
		panic("internal/sqlite has registered no file system called " + product)
	}
	v := at[lib.Tsqlite3_vfs](p)
	engine.open, engine.remove = v.FxOpen, v.FxDelete
	v.FxOpen, v.FxDelete = callback(onOpen), callback(onDelete)
	methods.of = map[uintptr]uintptr{}
}

// at views C memory as a T.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// callback returns a top-level function in the form in which the engine calls it; goFunction is the reverse.
func callback[T any](f T) uintptr       { return *(*uintptr)(unsafe.Pointer(&struct{ f T }{f})) }
func goFunction[T any](p uintptr) T     { return *(*T)(unsafe.Pointer(&struct{ p uintptr }{p})) }
func bytesAt(p uintptr, n int32) []byte { return append([]byte{}, unsafe.Slice(at[byte](p), n)...) }

// locate returns the disk that contains a path, and the path's name on it.
func locate(path string) (*Disk, string) {
	disks.RLock()
	defer disks.RUnlock()
	for _, d := range disks.list {
		if name, ok := strings.CutPrefix(path, d.dir+string(filepath.Separator)); ok {
			return d, name
		}
	}
	return nil, ""
}

func onOpen(tls *libc.TLS, vfs, path, file uintptr, flags int32, out uintptr) int32 { //nolint:revive // the engine's signature.
	open := goFunction[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](engine.open)
	var d *Disk
	name := ""
	if path != 0 { // a temporary file has none
		d, name = locate(libc.GoString(path))
	}
	if d == nil {
		return open(tls, vfs, path, file, flags, out)
	}
	created := d.absent(name)
	if created && flags&lib.SQLITE_OPEN_CREATE != 0 {
		if rc, _ := d.begin(Op{Create, name}); rc != lib.SQLITE_OK {
			return rc
		}
	}
	rc := open(tls, vfs, path, file, flags, out)
	if rc != lib.SQLITE_OK {
		return rc
	}
	f := at[lib.Tsqlite3_file](file)
	h := &handle{
		disk: d, name: name, file: d.opened(name, created), methods: at[lib.Tsqlite3_io_methods](f.FpMethods),
		syncDir: flags&lib.SQLITE_OPEN_CREATE != 0 && flags&journals != 0,
	}
	f.FpMethods = methodsOn(tls, f.FpMethods)
	handles.Store(file, h)
	return lib.SQLITE_OK
}

// methodsOn returns the engine's methods, with those for writing, syncing and closing replaced.
func methodsOn(tls *libc.TLS, base uintptr) uintptr {
	methods.Lock()
	defer methods.Unlock()
	if p, ok := methods.of[base]; ok {
		return p
	}
	p := libc.Xcalloc(tls, 1, libcSize(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	m := at[lib.Tsqlite3_io_methods](p)
	*m = *at[lib.Tsqlite3_io_methods](base)
	m.FxWrite, m.FxTruncate, m.FxSync, m.FxClose = callback(onWrite), callback(onTruncate), callback(onSync), callback(onClose)
	methods.of[base] = p
	return p
}

func handleOf(file uintptr) *handle {
	h, _ := handles.Load(file)
	return h.(*handle)
}

func onWrite(tls *libc.TLS, file, from uintptr, n int32, offset int64) int32 {
	h := handleOf(file)
	rc, last := h.disk.begin(Op{Write, h.name})
	if rc != lib.SQLITE_OK && !last {
		return rc
	}
	h.disk.changed(h.file, change{at: offset, data: bytesAt(from, n)})
	if done := goFunction[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](h.methods.FxWrite)(tls, file, from, n, offset); !last {
		return done
	}
	return rc
}

func onTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	h := handleOf(file)
	rc, last := h.disk.begin(Op{Truncate, h.name})
	if rc != lib.SQLITE_OK && !last {
		return rc
	}
	h.disk.changed(h.file, change{at: size})
	if done := goFunction[func(*libc.TLS, uintptr, int64) int32](h.methods.FxTruncate)(tls, file, size); !last {
		return done
	}
	return rc
}

// onSync does not sync the file on the machine's own disk: only the state of the simulated disk counts.
func onSync(_ *libc.TLS, file uintptr, _ int32) int32 {
	h := handleOf(file)
	rc, _ := h.disk.begin(Op{Sync, h.name})
	if rc == lib.SQLITE_OK {
		h.disk.synced(h.file)
		if h.syncDir {
			h.syncDir = false
			h.disk.syncedDir(filepath.Dir(h.name))
		}
	}
	return rc
}

func onClose(tls *libc.TLS, file uintptr) int32 {
	h := handleOf(file)
	handles.Delete(file)
	return goFunction[func(*libc.TLS, uintptr) int32](h.methods.FxClose)(tls, file)
}

func onDelete(tls *libc.TLS, vfs, path uintptr, syncDir int32) int32 {
	remove := goFunction[func(*libc.TLS, uintptr, uintptr, int32) int32](engine.remove)
	d, name := locate(libc.GoString(path))
	if d == nil || d.absent(name) {
		return remove(tls, vfs, path, syncDir)
	}
	rc, last := d.begin(Op{Remove, name})
	if rc != lib.SQLITE_OK && !last {
		return rc
	}
	if done := remove(tls, vfs, path, 0); done != lib.SQLITE_OK {
		return done
	}
	d.removed(name)
	if rc == lib.SQLITE_OK && syncDir != 0 {
		d.syncedDir(filepath.Dir(name))
	}
	return rc
}
