package sqlite

import (
	"encoding/binary"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// The engine writes a commit to the WAL page by page: for each page a header, then the page. Two calls of the operating
// system for a page cost more than all else that the engine does for it. So during a COMMIT our file system gathers the
// frames, and writes up to maxFrames at once.
//
// The WAL keeps its meaning: the frames reach the file in the engine's order, and the write of the last frame, which
// makes the commit valid, returns only when all frames are in the file. Only then does the engine show the commit to
// other connections, or sync it. Frames that the engine writes outside a COMMIT, when its page cache is full, are
// not gathered, since the engine may read them again. Inside a COMMIT it does so only while it moves the pages of a file
// with auto_vacuum; a read writes the held frames first.

const (
	frameHeader = 24 // bytes; source: https://www.sqlite.org/fileformat.html section 4.1
	frameBytes  = frameHeader + PageSize
	// maxFrames is the largest number of frames in one write: the engine's unix file system writes less than 128 KiB.
	maxFrames = 31
)

// walFrames gathers the frames of one commit.
type walFrames struct {
	on   bool    // a COMMIT runs whose last frame is not written yet
	last bool    // the frame whose header was held last ends the commit
	file uintptr // the WAL of the held frames
	at   int64   // where the held bytes begin in the file
	held int     // bytes
	buf  uintptr // frameBytes*maxFrames bytes of C memory; 0 until used
}

func (f *walFrames) begin() { f.on = true }

// end ends a COMMIT. Frames are still held only if the COMMIT has failed; the engine has rolled it back.
func (f *walFrames) end() { f.on, f.held = false, 0 }

// fill makes room for another frame. It returns false if there is no memory.
func (f *walFrames) fill(tls *libc.TLS) bool {
	if f.buf == 0 {
		f.buf = libc.Xmalloc(tls, types.Size_t(frameBytes*maxFrames))
	}
	return f.buf != 0
}

// onWALWrite writes n bytes to a WAL, or holds them.
func onWALWrite(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	m := meterOf(tls)
	if m == nil || !m.c.frames.on {
		return writeThrough(tls, file, from, n, at)
	}
	f := &m.c.frames
	follows := f.held > 0 && file == f.file && at == f.at+int64(f.held)
	switch {
	case n == PageSize && follows && f.held%frameBytes == frameHeader:
		f.hold(from, n)
		if f.last {
			f.on = false // what the engine writes after the last frame only changes earlier frames
			return f.flush(tls)
		}
		return lib.SQLITE_OK
	case n == frameHeader && (f.held == 0 || follows && f.held%frameBytes == 0) && f.fill(tls):
		if f.held == frameBytes*maxFrames {
			if rc := f.flush(tls); rc != lib.SQLITE_OK {
				return rc
			}
		}
		if f.held == 0 {
			f.file, f.at = file, at
		}
		f.last = binary.BigEndian.Uint32(view(from, int(n))[4:]) != 0 // the size of the database after the commit
		f.hold(from, n)
		return lib.SQLITE_OK
	}
	if rc := f.flush(tls); rc != lib.SQLITE_OK {
		return rc
	}
	return writeThrough(tls, file, from, n, at)
}

// onWALRead reads from a WAL.
func onWALRead(tls *libc.TLS, file, to uintptr, n int32, at int64) int32 {
	if m := meterOf(tls); m != nil && m.c.frames.held > 0 && m.c.frames.file == file {
		if rc := m.c.frames.flush(tls); rc != lib.SQLITE_OK {
			return rc
		}
	}
	read := goFunction[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](ownPartOf(file).methods.FxRead)
	return read(tls, file, to, n, at)
}

func (f *walFrames) hold(from uintptr, n int32) {
	f.held += copy(view(f.buf+uintptr(f.held), int(n)), view(from, int(n)))
}

// flush writes the held bytes.
func (f *walFrames) flush(tls *libc.TLS) int32 {
	n := f.held
	if f.held = 0; n == 0 {
		return lib.SQLITE_OK
	}
	return writeThrough(tls, f.file, f.buf, int32(n), f.at)
}
