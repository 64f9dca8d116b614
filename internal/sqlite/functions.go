package sqlite

import (
	"bytes"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// The engine checks the clock between its steps, and one call of a function is one step. Some of its functions take
// time proportional to the product of their arguments' lengths. This file reimplements these functions with identical
// results and with clock checks inside. Indexes, generated columns and checks may use them like the engine's own.

// function is one reimplemented function.
type function struct {
	name string
	args int32
	call func(*call)
	like *pattern // the wildcards of LIKE or GLOB; nil for other functions
}

var functions = []function{
	{name: "like", args: 2, call: matches, like: &likePattern},
	{name: "like", args: 3, call: matches, like: &likePattern},
	{name: "glob", args: 2, call: matches, like: &globPattern},
	{name: "instr", args: 2, call: instr},
	{name: "replace", args: 3, call: replace},
	{name: "trim", args: 2, call: func(c *call) { trim(c, true, true) }},
	{name: "ltrim", args: 2, call: func(c *call) { trim(c, true, false) }},
	{name: "rtrim", args: 2, call: func(c *call) { trim(c, false, true) }},
	{name: "unhex", args: 2, call: unhex},
}

// data is the user data of a function, in C memory. The wildcards come first: the engine reads them there when it turns
// LIKE and GLOB into a range of an index.
type data struct {
	wildcards lib.TcompareInfo
	function  int32
	conn      uintptr
}

// redefine replaces the engine's functions by ours.
func (c *Conn) redefine() error {
	size := int(unsafe.Sizeof(data{}))
	if c.functions = libc.Xcalloc(c.tls, types.Size_t(len(functions)), types.Size_t(size)); c.functions == 0 {
		return errNoMemory
	}
	for i, f := range functions {
		at := c.functions + uintptr(i*size)
		d := ref[data](at)
		d.function, d.conn = int32(i), address(c)
		if f.like != nil {
			d.wildcards = f.like.wildcards()
		}
		if err := c.define(f.name, f.args, at); err != nil {
			return err
		}
	}
	// The first call marks LIKE and GLOB for the engine's planner.
	return c.ExecOnce("SELECT 'a' LIKE 'a', 'a' LIKE 'a' ESCAPE '!', 'a' GLOB 'a'")
}

func (c *Conn) define(name string, args int32, at uintptr) error {
	p, err := cstring(c.tls, name)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, p)
	const flags = lib.SQLITE_UTF8 | lib.SQLITE_DETERMINISTIC | lib.SQLITE_INNOCUOUS
	if rc := lib.Xsqlite3_create_function_v2(c.tls, c.db, p, args, flags, at, callback(onFunction), 0, 0, 0); rc != lib.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}

// call is one call of a function.
type call struct {
	tls  *libc.TLS
	ctx  uintptr
	argv []uintptr
	conn *Conn
	like *pattern
	work int // bytes compared since the last check of the clock
}

func onFunction(tls *libc.TLS, ctx uintptr, argc int32, argv uintptr) {
	d := ref[data](lib.Xsqlite3_user_data(tls, ctx))
	f := &functions[d.function]
	if f.like != nil {
		f.like.mark(ctx)
	}
	args := unsafe.Slice(ref[uintptr](argv), int(argc)) //nolint:gosec // as many as the engine says.
	f.call(&call{tls: tls, ctx: ctx, argv: args, conn: ref[Conn](d.conn), like: f.like})
}

// workEvery is how many bytes are compared between two checks of the clock, some 50 microseconds.
const workEvery = 256 << 10

// late counts n bytes of work and reports whether the statement must end. If so, it has set the function's error.
func (c *call) late(n int) bool {
	if c.work += n; c.work < workEvery {
		return false
	}
	c.work = 0
	if !c.conn.over() {
		return false
	}
	lib.Xsqlite3_result_error_code(c.tls, c.ctx, lib.SQLITE_INTERRUPT)
	return true
}

func (c *call) kind(i int) int32 { return lib.Xsqlite3_value_type(c.tls, c.argv[i]) }

// text returns argument i as text, valid until the function returns. It returns false for NULL or if memory runs out.
func (c *call) text(i int) ([]byte, bool) {
	p := lib.Xsqlite3_value_text(c.tls, c.argv[i])
	return view(p, int(lib.Xsqlite3_value_bytes(c.tls, c.argv[i]))), p != 0
}

// upToZero returns b as C sees it, up to its first zero byte.
func upToZero(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

// transient tells the engine to copy the result.
const transient = ^uintptr(0)

func (c *call) returnText(b []byte) {
	p := c.conn.out // an empty text needs an address too.
	if len(b) > 0 {
		p = uintptr(unsafe.Pointer(&b[0])) //nolint:gosec // memory of the engine, from an argument.
	}
	lib.Xsqlite3_result_text(c.tls, c.ctx, p, int32(len(b)), transient)
}

func (c *call) fail(message string) {
	p, err := cstring(c.tls, message)
	if err != nil {
		lib.Xsqlite3_result_error_nomem(c.tls, c.ctx)
		return
	}
	lib.Xsqlite3_result_error(c.tls, c.ctx, p, -1)
	libc.Xfree(c.tls, p)
}

// alloc returns n bytes of the engine's memory, counted as the statement's. If the statement may not have them, it sets
// the function's error and returns false.
func (c *call) alloc(n int) (uintptr, bool) {
	if n > c.conn.bounded.value {
		lib.Xsqlite3_result_error_toobig(c.tls, c.ctx)
		return 0, false
	}
	p := lib.Xsqlite3_malloc64(c.tls, uint64(n)+1)
	if p == 0 {
		lib.Xsqlite3_result_error_nomem(c.tls, c.ctx)
		return 0, false
	}
	return p, true
}
