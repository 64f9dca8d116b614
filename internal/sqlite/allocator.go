package sqlite

import (
	"fmt"
	"sync/atomic"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// started is the error of the engine's initialization. That runs once per process, before any use of the engine: after
// initialization the engine accepts no allocator.
var started = start()

// allocator holds the memory functions that start gives to the engine.
var allocator = lib.Tsqlite3_mem_methods{
	FxMalloc: callback(onMalloc), FxFree: callback(onFree), FxRealloc: callback(onRealloc), FxSize: callback(onSize),
	FxRoundup: callback(onRoundup), FxInit: callback(onAllocatorInit), FxShutdown: callback(onAllocatorEnd),
}

func start() error {
	tls := libc.NewTLS()
	defer tls.Close()
	va := libc.NewVaList(address(&allocator))
	if va == 0 {
		return errNoMemory
	}
	defer libc.Xfree(tls, va)
	if rc := lib.Xsqlite3_config(tls, lib.SQLITE_CONFIG_MALLOC, va); rc != lib.SQLITE_OK {
		return fmt.Errorf("set the engine's allocator: result code %d", rc)
	}
	if rc := lib.Xsqlite3_initialize(tls); rc != lib.SQLITE_OK {
		return fmt.Errorf("start the engine: result code %d", rc)
	}
	return addFileSystem(tls)
}

// meters has the meter of each connection by its thread number modulo 4096: the engine runs each connection on its own
// libc "thread".
var meters [4096]atomic.Pointer[meter]

func meterOf(tls *libc.TLS) *meter {
	if m := meters[uint32(tls.ID)%uint32(len(meters))].Load(); m != nil && m.id == tls.ID {
		return m
	}
	return nil
}

// register gives m a thread whose slot in meters is free.
func (m *meter) register() (*libc.TLS, error) {
	for range 2 * len(meters) {
		tls := libc.NewTLS()
		m.id = tls.ID
		if meters[uint32(tls.ID)%uint32(len(meters))].CompareAndSwap(nil, m) {
			return tls, nil
		}
		tls.Close()
	}
	return nil, fmt.Errorf("more than %d connections are open", len(meters))
}

func (m *meter) unregister() {
	meters[uint32(m.id)%uint32(len(meters))].CompareAndSwap(m, nil)
}

// sizeHeader is the room before each allocation that stores its size.
const sizeHeader = 8

func onMalloc(tls *libc.TLS, n int32) uintptr {
	m := meterOf(tls)
	if m != nil && !m.take(int64(n)) {
		return 0
	}
	p := libc.Xmalloc(tls, types.Size_t(n)+sizeHeader)
	if p == 0 {
		if m != nil {
			m.give(int64(n))
		}
		return 0
	}
	*ref[int64](p) = int64(n)
	return p + sizeHeader
}

func onFree(tls *libc.TLS, p uintptr) {
	if m := meterOf(tls); m != nil {
		m.give(*ref[int64](p - sizeHeader))
	}
	libc.Xfree(tls, p-sizeHeader)
}

func onRealloc(tls *libc.TLS, p uintptr, n int32) uintptr {
	m, more := meterOf(tls), int64(n)-*ref[int64](p - sizeHeader)
	if m != nil && !m.take(more) {
		return 0
	}
	p = libc.Xrealloc(tls, p-sizeHeader, types.Size_t(n)+sizeHeader)
	if p == 0 {
		if m != nil {
			m.give(more)
		}
		return 0
	}
	*ref[int64](p) = int64(n)
	return p + sizeHeader
}

func onSize(_ *libc.TLS, p uintptr) int32 {
	if p == 0 {
		return 0
	}
	return int32(*ref[int64](p - sizeHeader))
}

func onRoundup(_ *libc.TLS, n int32) int32 { return (n + 7) &^ 7 }

func onAllocatorInit(*libc.TLS, uintptr) int32 { return lib.SQLITE_OK }

func onAllocatorEnd(*libc.TLS, uintptr) {}
