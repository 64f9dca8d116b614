package sqlite

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// The engine uses temporary files for sorting and for undoing a statement, once they would take too much memory. The
// meter counts them like memory. For that, the engine opens its files through our file system, which is the default one
// except for temporary files.

const (
	fileSystemName = "rideshare"
	temporary      = lib.SQLITE_OPEN_TEMP_DB | lib.SQLITE_OPEN_TRANSIENT_DB | lib.SQLITE_OPEN_TEMP_JOURNAL | lib.SQLITE_OPEN_SUBJOURNAL
)

// fileSystem is set once, before a connection is opened.
var fileSystem struct {
	name    uintptr // in C memory
	size    int32   // of the default file system's own file
	open    uintptr // its xOpen
	mu      sync.Mutex
	methods map[uintptr]uintptr // methods of temporary files by the default file system's methods
}

// tempFile follows the default file system's own file in memory.
type tempFile struct {
	methods *lib.Tsqlite3_io_methods // the default file system's
	counted int64                    // bytes counted on the meter
}

func tempFileAt(file uintptr) *tempFile {
	return ref[tempFile](file + uintptr(fileSystem.size))
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
	fileSystem.size, fileSystem.open, fileSystem.methods = (base.FszOsFile+7)&^7, base.FxOpen, map[uintptr]uintptr{}
	own := ref[lib.Tsqlite3_vfs](p)
	*own = *base
	own.FzName, own.FpNext, own.FxOpen = fileSystem.name, 0, callback(onOpen)
	own.FszOsFile = fileSystem.size + int32(unsafe.Sizeof(tempFile{}))
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
	if rc != lib.SQLITE_OK || flags&temporary == 0 {
		return rc
	}
	f := ref[lib.Tsqlite3_file](file)
	own, ok := tempMethods(tls, f.FpMethods)
	if !ok {
		goFunction[func(*libc.TLS, uintptr) int32](ref[lib.Tsqlite3_io_methods](f.FpMethods).FxClose)(tls, file)
		f.FpMethods = 0
		return lib.SQLITE_NOMEM
	}
	*tempFileAt(file) = tempFile{methods: ref[lib.Tsqlite3_io_methods](f.FpMethods)}
	f.FpMethods = own
	return lib.SQLITE_OK
}

// tempMethods returns base's methods, with our own for writing and closing.
func tempMethods(tls *libc.TLS, base uintptr) (uintptr, bool) {
	fileSystem.mu.Lock()
	defer fileSystem.mu.Unlock()
	if own, ok := fileSystem.methods[base]; ok {
		return own, true
	}
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	if own == 0 {
		return 0, false
	}
	m := ref[lib.Tsqlite3_io_methods](own)
	*m = *ref[lib.Tsqlite3_io_methods](base)
	m.FxWrite, m.FxClose = callback(onTempWrite), callback(onTempClose)
	fileSystem.methods[base] = own
	return own, true
}

func onTempWrite(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	f, m := tempFileAt(file), meterOf(tls)
	if more := at + int64(n) - f.counted; m != nil && more > 0 {
		if !m.take(more) {
			return lib.SQLITE_FULL
		}
		f.counted += more
	}
	rc := goFunction[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](f.methods.FxWrite)(tls, file, from, n, at)
	if rc&primaryMask == lib.SQLITE_FULL && m != nil && m.running {
		m.stop = tooLarge // the place of temporary files is smaller than the statement's budget.
	}
	return rc
}

func onTempClose(tls *libc.TLS, file uintptr) int32 {
	f := tempFileAt(file)
	if m := meterOf(tls); m != nil {
		m.give(f.counted)
	}
	return goFunction[func(*libc.TLS, uintptr) int32](f.methods.FxClose)(tls, file)
}
