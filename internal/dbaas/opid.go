package dbaas

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// OpID identifies an operation. It has the form of a UUID: version 7 if NewOpID made it, version 8 if it is derived
// from a client's Idempotency-Key.
type OpID [16]byte

// ErrBadOpID is returned by ParseOpID for text that is not a UUID.
var ErrBadOpID = errors.New("operation id is not a UUID")

// NewOpID makes an id whose first 48 bits are now in milliseconds, so that ids
// sort by time (RFC 9562, UUIDv7).
func NewOpID(now time.Time) OpID {
	var id OpID
	_, _ = rand.Read(id[6:]) // crypto/rand.Read never fails, by its documentation.
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(now.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	return id.stamp(7)
}

// OpIDFromKey derives the id of the operation that a client named key. The same
// key always gives the same id. Source: RFC 9562, UUIDv8 over SHA-256.
func OpIDFromKey(key string) OpID {
	sum := sha256.Sum256([]byte("idempotency-key\x00" + key))
	return OpID(sum[:16]).stamp(8)
}

func (id OpID) stamp(version byte) OpID {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Generated reports whether id has the form of an id from NewOpID, rather than of a client's.
func (id OpID) Generated() bool { return id[6]>>4 == 7 }

// IsZero reports whether id is unset.
func (id OpID) IsZero() bool { return id == OpID{} }

// String returns the usual form of a UUID.
func (id OpID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseOpID reads the form that String writes. It returns ErrBadOpID for
// anything else.
func ParseOpID(s string) (OpID, error) {
	var id OpID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, ErrBadOpID
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return OpID{}, ErrBadOpID
	}
	return id, nil
}
