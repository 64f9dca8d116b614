package sqlite

import (
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
)

// ref views the C memory, or the pinned Go value, at address p as a T.
func ref[T any](p uintptr) *T {
	return *(**T)(unsafe.Pointer(&p)) //nolint:gosec // the only way to read what the engine wrote; p comes from it.
}

// callback returns a top-level function in the form in which the engine calls it. It must not be a closure: only the
// code pointer is kept.
func callback[T any](f T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&struct{ f T }{f})) //nolint:gosec // how the transpiled engine represents function pointers.
}

// address returns the address of a value that is pinned by runtime.Pinner.
func address[T any](v *T) uintptr {
	return uintptr(unsafe.Pointer(v)) //nolint:gosec // v is pinned, so its address stays valid.
}

// view returns n bytes of C memory without copying them. The engine reuses them, so copy them before the next step.
func view(p uintptr, n int) []byte {
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice(ref[byte](p), n) //nolint:gosec // n is what the engine says.
}

// asString returns b as a string without copying it. The string is valid only as long as b.
func asString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // it lives as long as b, which its users know.
}

// cstring copies s into C memory with a zero byte at its end. The caller frees it.
func cstring(tls *libc.TLS, s string) (uintptr, error) {
	p := libc.Xmalloc(tls, types.Size_t(len(s)+1))
	if p == 0 {
		return 0, errNoMemory
	}
	b := view(p, len(s)+1)
	copy(b, s)
	b[len(s)] = 0
	return p, nil
}

// The words of Conn.out, the memory where C functions put their results.
const (
	outFirst  = 0
	outSecond = 8
	outSize   = 16
)

// maxKeptScratch is how much scratch memory a connection keeps between statements: a value of 60 MiB must not stay
// allocated.
const maxKeptScratch = 1 << 20

// release frees the connection's scratch memory.
func (c *Conn) release() {
	libc.Xfree(c.tls, c.scratch)
	c.scratch, c.scratchSize = 0, 0
}

// reserve makes the connection's scratch memory at least n bytes large. Its contents are lost.
func (c *Conn) reserve(n int) error {
	if n <= c.scratchSize {
		return nil
	}
	size := max(n, 2*c.scratchSize, 4096)
	p := libc.Xmalloc(c.tls, types.Size_t(size))
	if p == 0 {
		return errNoMemory
	}
	libc.Xfree(c.tls, c.scratch)
	c.scratch, c.scratchSize = p, size
	return nil
}
