package archive

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
	"rideshare/persdb/archive/place"
)

// Entry is one entry of the log as a segment holds it.
type Entry struct {
	Seq   dbaas.Seq
	Epoch dbaas.Epoch
	At    time.Time
	// Operations is a frame of wire.KindRecords: each operation's id, fingerprint and stored answer. It is the column ops
	// of persdb's log.
	Operations []byte
	// Changes is what wire.AppendChanges wrote, counters included. It is the column changes of persdb's log.
	Changes []byte
}

// Decode returns the entry in the form that replicas apply.
func (e *Entry) Decode(cluster dbaas.ClusterID) (dbaas.Entry, error) {
	changes, err := wire.DecodeChanges(e.Changes)
	if err != nil {
		return dbaas.Entry{}, fmt.Errorf("changes of entry %d: %w", e.Seq, err)
	}
	return dbaas.Entry{Cluster: cluster, Seq: e.Seq, Epoch: e.Epoch, At: e.At, Changes: changes}, nil
}

// entryHead is the size in bytes of seq, epoch, time, and the lengths of operations and changes.
const entryHead = 3*8 + 2*4

func (e *Entry) append(b []byte) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Operations)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Changes)))
	b = append(append(b, e.Operations...), e.Changes...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// WriteEntry appends an entry to the content of a segment.
func WriteEntry(w io.Writer, e *Entry) error {
	_, err := w.Write(e.append(make([]byte, 0, entryHead+len(e.Operations)+len(e.Changes)+sumBytes)))
	return err
}

var (
	errEntry = errors.New("an entry in it is damaged")
	errDense = errors.New("its entries do not follow each other")
)

func readEntry(r io.Reader) (Entry, error) {
	head := make([]byte, entryHead)
	if _, err := io.ReadFull(r, head); errors.Is(err, io.EOF) {
		return Entry{}, io.EOF
	} else if err != nil {
		return Entry{}, cut(err)
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }
	e := Entry{Seq: dbaas.Seq(number(0)), Epoch: dbaas.Epoch(number(8)), At: time.UnixMilli(int64(number(16)))}
	ops, changes := binary.BigEndian.Uint32(head[24:]), binary.BigEndian.Uint32(head[28:])
	if ops > wire.MaxBytes || changes > wire.MaxBytes {
		return e, errEntry
	}
	rest := make([]byte, int(ops)+int(changes)+sumBytes)
	if _, err := io.ReadFull(r, rest); err != nil {
		return e, cut(err)
	}
	sum := len(rest) - sumBytes
	if binary.BigEndian.Uint32(rest[sum:]) != crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, rest[:sum]) {
		return e, errEntry
	}
	e.Operations, e.Changes = rest[:ops:ops], rest[ops:sum:sum]
	return e, nil
}

// WriteSegment writes a segment to w. entries calls add for each entry of h.First up to h.Last, in order.
func WriteSegment(w io.Writer, h Header, entries func(add func(*Entry) error) error) error {
	h.Kind = KindSegment
	return write(w, &h, func(out io.Writer) error {
		next := h.First
		err := entries(func(e *Entry) error {
			if e.Seq != next {
				return fmt.Errorf("entry %d where %d is next: %w", e.Seq, next, errDense)
			}
			next++
			return WriteEntry(out, e)
		})
		if err == nil && next != h.Last+1 {
			err = fmt.Errorf("entries up to %d of %d: %w", next-1, h.Last, errDense)
		}
		return err
	})
}

// ReadSegment calls each for the entries of a segment in order, and returns the segment's header. Every entry passed to
// each is intact, but the segment as a whole is intact only if ReadSegment returns nil. An error of each ends the
// reading and is returned as it is. A damaged segment gives a *BadObjectError.
func ReadSegment(ctx context.Context, p place.Place, s Segment, each func(Entry) error) (Header, error) {
	var h Header
	err := read(ctx, p, s.Name, func(got Header) error {
		h = got
		return s.check(&h)
	}, func(content io.Reader) error {
		in := bufio.NewReader(content)
		for next := s.First; ; next++ {
			e, err := readEntry(in)
			if errors.Is(err, io.EOF) && next == s.Last+1 {
				return nil
			}
			if errors.Is(err, io.EOF) || err == nil && (e.Seq != next || next > s.Last) {
				return errDense
			}
			if err != nil {
				return err
			}
			if err = each(e); err != nil {
				return callerError{err}
			}
		}
	})
	return h, err
}

// check compares a header with the segment's name.
func (s *Segment) check(h *Header) error {
	if h.Kind != KindSegment || h.Cluster != s.Cluster || h.First != s.First || h.Last != s.Last {
		return errOther
	}
	return nil
}

// WriteSnapshot writes a snapshot to w: the database file that body returns, as of h.Last.
func WriteSnapshot(w io.Writer, h Header, body io.Reader) error {
	h.Kind, h.First, h.FirstAt = KindSnapshot, h.Last, h.LastAt
	return write(w, &h, func(out io.Writer) error {
		n, err := io.Copy(out, body)
		if err == nil && n != h.Bytes {
			err = fmt.Errorf("%d of %d bytes: %w", n, h.Bytes, errCut)
		}
		return err
	})
}

// ReadSnapshot writes the database file of a snapshot to w and returns the snapshot's header. The written file is
// intact only if ReadSnapshot returns nil. An error of w is returned as it is. A damaged snapshot gives a
// *BadObjectError.
func ReadSnapshot(ctx context.Context, p place.Place, s Snapshot, w io.Writer) (Header, error) {
	var h Header
	err := read(ctx, p, s.Name, func(got Header) error {
		h = got
		return s.check(&h)
	}, func(content io.Reader) error {
		n, err := io.Copy(callersWriter{w}, content)
		if err == nil && n != h.Bytes {
			err = errCut
		}
		return err
	})
	return h, err
}

// check compares a header with the snapshot's name.
func (s *Snapshot) check(h *Header) error {
	if h.Kind != KindSnapshot || h.Cluster != s.Cluster || h.Last != s.Seq {
		return errOther
	}
	return nil
}

// callersWriter marks errors of the caller's writer as a callerError.
type callersWriter struct{ to io.Writer }

func (w callersWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		err = callerError{err}
	}
	return n, err
}
