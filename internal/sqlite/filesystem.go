package sqlite

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// The engine opens its files through our file system. It differs from the default one in how it writes and closes
// temporary files (tempfile.go), and in how it writes a WAL (walframes.go).

const (
	fileSystemName = "rideshare"
	temporary      = lib.SQLITE_OPEN_TEMP_DB | lib.SQLITE_OPEN_TRANSIENT_DB | lib.SQLITE_OPEN_TEMP_JOURNAL | lib.SQLITE_OPEN_SUBJOURNAL
)

// fileSystem is set once, before a connection is opened.
var fileSystem struct {
	name    uintptr // in C memory
	size    int32   // size of the default file system's file object
	open    uintptr // xOpen of the default file system
	mu      sync.Mutex
	methods map[methodsKey]uintptr // our methods
}

// methodsKey names our methods for one kind of file.
type methodsKey struct {
	base uintptr // the default file system's methods
	wal  bool
}

// ownPart is our part of a file object. In memory it comes directly after the default file system's part.
type ownPart struct {
	methods *lib.Tsqlite3_io_methods // the default file system's
	counted int64                    // bytes of a temporary file that are counted on the meter
}

func ownPartOf(file uintptr) *ownPart {
	return ref[ownPart](file + uintptr(fileSystem.size))
}

// addFileSystem registers the file system with the engine.
func addFileSystem(tls *libc.TLS) (err error) {
	base := ref[lib.Tsqlite3_vfs](lib.Xsqlite3_vfs_find(tls, 0))
	p := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(*base)))
	if p == 0 {
		return errNoMemory
	}
	if fileSystem.name, err = cstring(tls, fileSystemName); err != nil {
		return err
	}
	fileSystem.size, fileSystem.open, fileSystem.methods = (base.FszOsFile+7)&^7, base.FxOpen, map[methodsKey]uintptr{}
	own := ref[lib.Tsqlite3_vfs](p)
	*own = *base
	own.FzName, own.FpNext, own.FxOpen = fileSystem.name, 0, callback(onOpen)
	own.FszOsFile = fileSystem.size + int32(unsafe.Sizeof(ownPart{}))
	if rc := lib.Xsqlite3_vfs_register(tls, p, 0); rc != lib.SQLITE_OK {
		return fmt.Errorf("register the file system: result code %d", rc)
	}
	return nil
}

// goFunction converts one of the engine's function pointers to a Go function.
func goFunction[T any](p uintptr) T {
	return *(*T)(unsafe.Pointer(&struct{ p uintptr }{p})) //nolint:gosec // how the transpiled engine represents function pointers.
}

func onOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 { //nolint:revive // the engine's signature.
	rc := goFunction[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](fileSystem.open)(tls, vfs, name, file, flags, out)
	if rc != lib.SQLITE_OK || flags&(temporary|lib.SQLITE_OPEN_WAL) == 0 {
		return rc
	}
	f := ref[lib.Tsqlite3_file](file)
	own, ok := ownMethods(tls, methodsKey{base: f.FpMethods, wal: flags&lib.SQLITE_OPEN_WAL != 0})
	if !ok {
		goFunction[func(*libc.TLS, uintptr) int32](ref[lib.Tsqlite3_io_methods](f.FpMethods).FxClose)(tls, file)
		f.FpMethods = 0
		return lib.SQLITE_NOMEM
	}
	*ownPartOf(file) = ownPart{methods: ref[lib.Tsqlite3_io_methods](f.FpMethods)}
	f.FpMethods = own
	return lib.SQLITE_OK
}

// ownMethods returns the default file system's methods with ours in their places.
func ownMethods(tls *libc.TLS, key methodsKey) (uintptr, bool) {
	fileSystem.mu.Lock()
	defer fileSystem.mu.Unlock()
	if own, ok := fileSystem.methods[key]; ok {
		return own, true
	}
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	if own == 0 {
		return 0, false
	}
	m := ref[lib.Tsqlite3_io_methods](own)
	*m = *ref[lib.Tsqlite3_io_methods](key.base)
	if key.wal {
		m.FxRead, m.FxWrite = callback(onWALRead), callback(onWALWrite)
	} else {
		m.FxWrite, m.FxClose = callback(onTempWrite), callback(onTempClose)
	}
	fileSystem.methods[key] = own
	return own, true
}

// writeThrough calls the default file system's xWrite.
func writeThrough(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	write := goFunction[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](ownPartOf(file).methods.FxWrite)
	return write(tls, file, from, n, at)
}
