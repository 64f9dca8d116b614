// Package wire encodes what is sent over the bus and what persdb stores: batches of reads, writes and their answers,
// and entries. Frames are binary, versioned and bounded. A decoder never trusts a length, never panics, and allocates
// at most a small multiple of the frame's own size.
//
// Layout: "RS", version, kind, shard (uvarint), then the kind's own fields.
// Numbers are varints, texts and blobs have a uvarint length before them.
package wire

import (
	"errors"
	"fmt"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// Version is the only frame version that this build writes and reads.
const Version = 1

// MaxBytes is the largest frame that is encoded or decoded: the body limit of /db/* (64 MiB) plus room for its
// encoding, and less than RabbitMQ 3's 128 MiB.
const MaxBytes = 96 << 20

// Kind is the type of a frame's contents.
type Kind uint8

// The kinds of frames. The numbers are part of the format and are never reused.
const (
	// 1 and 3 were requests with deadlines in the sender's clock.
	KindReadReply           Kind = 2
	KindWriteReply          Kind = 4
	KindEntry               Kind = 5
	KindRecords             Kind = 6
	KindEntries             Kind = 7
	KindReadHeld            Kind = 8
	KindEntryWithoutChanges Kind = 9
	KindReadRequest         Kind = 10
	KindWriteRequest        Kind = 11
	KindTaggedReply         Kind = 12
)

// Errors of the decoder.
var (
	// ErrTooLarge is returned for a frame over MaxBytes.
	ErrTooLarge = errors.New("frame over the size limit")
	// ErrMalformed is returned for bytes that are not a complete frame of the wanted kind.
	ErrMalformed = errors.New("malformed frame")
	// ErrVersion is returned for a frame of an unknown version.
	ErrVersion = errors.New("frame version not known")
)

// KindOf returns the kind of a frame without decoding the rest.
func KindOf(b []byte) (Kind, error) {
	d := newDecoder(b)
	kind, _ := d.header()
	return kind, d.failure()
}

func appendHeader(b []byte, kind Kind, shard dbaas.ShardID) []byte {
	b = append(b, 'R', 'S', Version, byte(kind))
	return packed.AppendUint(b, uint64(shard))
}

func (d *decoder) header() (Kind, dbaas.ShardID) {
	if len(d.Rest) > MaxBytes {
		d.fail(ErrTooLarge)
		return 0, 0
	}
	if len(d.Rest) < 4 || d.Rest[0] != 'R' || d.Rest[1] != 'S' {
		d.Fail()
		return 0, 0
	}
	if d.Rest[2] != Version {
		d.fail(fmt.Errorf("version %d: %w", d.Rest[2], ErrVersion))
		return 0, 0
	}
	kind := Kind(d.Rest[3])
	d.Rest = d.Rest[4:]
	shard := d.Uint()
	if shard > 1<<32-1 {
		d.Fail()
	}
	return kind, dbaas.ShardID(shard)
}

// open starts decoding a frame of the wanted kind.
func open(b []byte, want Kind) (*decoder, dbaas.ShardID, error) {
	d := newDecoder(b)
	kind, shard := d.header()
	if !d.Bad && kind != want {
		d.fail(fmt.Errorf("kind %d where %d is wanted: %w", kind, want, ErrMalformed))
	}
	return d, shard, d.failure()
}
