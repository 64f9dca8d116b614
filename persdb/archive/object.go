// Package archive is the format of persdb's archive: snapshots of the database and segments of its log, from which the
// database of any past position can be restored. Package place stores the objects, package writer writes them, and the
// commands that list, verify and restore read them. DESIGN.md describes the format byte by byte.
//
// To read an archive:
//
//   - place.Open returns the place of a URL, and Clusters the ids of the clusters that have objects there;
//   - Read returns the Catalog of one cluster: its snapshots and segments by name;
//   - Catalog.Ranges returns the positions that can be restored. Catalog.Plan returns the snapshot and segments that a
//     position needs. Catalog.SeqAt returns the position at a time;
//   - ReadHeader, ReadSnapshot and ReadSegment read one object. They return a BadObjectError with the object's name if
//     its bytes are not those that were written. Catalog.Without excludes the object from the next plan.
package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive/place"

	"github.com/klauspost/compress/zstd"
)

// Version is the only version of the format that this build writes and reads.
const Version = 1

// BadObjectError says that an object is not what was written: its bytes have changed, or its end is missing.
type BadObjectError struct {
	Name string
	Err  error
	Also []string // names of other bad objects
}

func (e *BadObjectError) Error() string {
	text := fmt.Sprintf("archive object %s is bad: %v", e.Name, e.Err)
	if len(e.Also) > 0 {
		text += "; bad too: " + strings.Join(e.Also, ", ")
	}
	return text
}

// Unwrap returns the reason.
func (e *BadObjectError) Unwrap() error { return e.Err }

// Header stands at the beginning of a snapshot and of a segment.
type Header struct {
	Cluster dbaas.ClusterID `json:"-"`
	Kind    Kind            `json:"-"`
	// First and Last are the positions of the first and the last entry of a segment; both are the position of a snapshot.
	First dbaas.Seq `json:"first"`
	Last  dbaas.Seq `json:"last"`
	// FirstAt and LastAt are the times of these entries. They are zero in a snapshot of position 0.
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
	// Epoch is the epoch of entry Last.
	Epoch dbaas.Epoch `json:"epoch"`
	// Trimmed is a lower bound for the position up to which persdb's log was trimmed when entry First was committed. A
	// merged segment has the value of its first part.
	Trimmed dbaas.Seq `json:"trimmed"`
	// Made is when the object was made.
	Made time.Time `json:"made"`
	// Tables are the content hashes of a snapshot, by table, as replication.Hashes returns them.
	Tables map[string]string `json:"tables,omitempty"`
	// Bytes is the size of a snapshot's file.
	Bytes int64 `json:"bytes,omitempty"`
}

// Kind says what follows a Header.
type Kind byte

// The kinds of objects with a Header.
const (
	KindSnapshot Kind = 1 // an SQLite file: persdb.db at the position, with persdb's own tables
	KindSegment  Kind = 2 // entries
)

const (
	magic = "RSAR"
	// placeBytes is the size of magic, version, kind, cluster id and the length of the header's text.
	placeBytes = len(magic) + 2 + 16 + 4
	sumBytes   = 4
	// maxHeader bounds the text of a header: 1 MiB of table names and hashes.
	maxHeader = 1 << 20
	// tailBytes is the size of an object's tail: the length of all bytes before the tail, and their SHA-256.
	tailBytes = 8 + sha256.Size
	// maxWindow bounds the memory of decompression.
	maxWindow = 8 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h *Header) encode() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := append([]byte(magic), Version, byte(h.Kind))
	b = append(b, h.Cluster[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// ErrVersion is wrapped by the BadObjectError of an object that another version of this program may be able to read.
var ErrVersion = errors.New("its format is of another version than this program's")

var (
	errNoHeader = errors.New("it does not begin as an object of an archive")
	errCut      = errors.New("its end is missing or not its own")
	errOther    = errors.New("it is not what its name says")
)

func readHeader(r io.Reader) (Header, error) {
	var h Header
	head := make([]byte, placeBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return h, cut(err)
	}
	if string(head[:len(magic)]) != magic {
		return h, errNoHeader
	}
	if head[len(magic)] != Version {
		return h, fmt.Errorf("%d: %w", head[len(magic)], ErrVersion)
	}
	h.Kind = Kind(head[len(magic)+1])
	h.Cluster = dbaas.ClusterID(head[len(magic)+2 : placeBytes-4])
	size := binary.BigEndian.Uint32(head[placeBytes-4:])
	if size > maxHeader {
		return h, errNoHeader
	}
	rest := make([]byte, int(size)+sumBytes)
	if _, err := io.ReadFull(r, rest); err != nil {
		return h, cut(err)
	}
	text := rest[:size]
	if binary.BigEndian.Uint32(rest[size:]) != crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text) {
		return h, errNoHeader
	}
	return h, json.Unmarshal(text, &h)
}

// cut converts an end-of-file error to errCut. Other errors come from the place and are returned as they are.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// write writes an object: header, compressed content, length and SHA-256.
func write(to io.Writer, h *Header, content func(io.Writer) error) error {
	head, err := h.encode()
	if err != nil {
		return err
	}
	out := &sealer{to: to, sum: sha256.New()}
	if _, err = out.Write(head); err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	if err = errors.Join(content(z), z.Close()); err != nil {
		return err
	}
	tail := binary.BigEndian.AppendUint64(nil, uint64(out.size))
	_, err = to.Write(out.sum.Sum(tail))
	return err
}

// sealer counts and hashes the bytes that are written.
type sealer struct {
	to   io.Writer
	sum  hash.Hash
	size int64
}

func (s *sealer) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	_, _ = s.sum.Write(p[:n]) // a hash never fails, by its documentation.
	s.size += int64(n)
	return n, err
}

// unsealer returns the bytes before the tail. At their end it returns io.EOF, or errCut if the tail does not match
// them.
type unsealer struct {
	from *bufio.Reader
	sum  hash.Hash
	size int64
}

func newUnsealer(r io.Reader) *unsealer {
	return &unsealer{from: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
}

func (u *unsealer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	ahead, err := u.from.Peek(min(tailBytes+len(p), u.from.Size()))
	n := len(ahead) - tailBytes
	if n <= 0 {
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
		return 0, u.check(ahead)
	}
	n = copy(p, ahead[:n])
	_, _ = u.sum.Write(p[:n]) // a hash never fails, by its documentation.
	u.size += int64(n)
	_, err = u.from.Discard(n)
	return n, err
}

func (u *unsealer) check(tail []byte) error {
	want := binary.BigEndian.AppendUint64(nil, uint64(u.size))
	if !bytes.Equal(tail, u.sum.Sum(want)) {
		return errCut
	}
	return io.EOF
}

// read opens an object, calls header with its header and content with the rest, and checks the object up to its end.
// content must read up to io.EOF. An error of the place is wrapped with the object's name. A callerError of content is
// returned as it is. Every other error becomes a BadObjectError.
func read(ctx context.Context, p place.Place, name string, header func(Header) error, content func(io.Reader) error) (err error) {
	body, err := p.Open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	source := &sourced{from: body}
	sealed := newUnsealer(source)
	h, err := readHeader(sealed)
	if err == nil {
		err = header(h)
	}
	if err != nil {
		return source.blame(name, err)
	}
	z, err := zstd.NewReader(sealed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	if err = content(z); err == nil {
		_, err = io.Copy(io.Discard, sealed) // checks the tail if the decompressor did not read up to it.
	}
	return source.blame(name, err)
}

// sourced remembers the first error of the place: such an error does not mean that the object is bad.
type sourced struct {
	from io.Reader
	err  error
}

func (s *sourced) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// callerError is an error of the caller's function that receives the content.
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// blame converts an error met while reading an object: an error of the caller or the place is not the object's fault.
func (s *sourced) blame(name string, err error) error {
	var callers callerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &callers):
		return callers.error
	case s.err != nil:
		return fmt.Errorf("read archive object %s: %w", name, s.err)
	}
	return &BadObjectError{Name: name, Err: err}
}

// ReadHeader returns the header of a snapshot or a segment. It does not read the rest, which may be bad.
func ReadHeader(ctx context.Context, p place.Place, name string) (h Header, err error) {
	body, err := p.Open(ctx, name)
	if err != nil {
		return h, err
	}
	defer func() { _ = body.Close() }() // the rest is not read.
	source := &sourced{from: body}
	h, err = readHeader(source)
	return h, source.blame(name, err)
}
