package dbaas

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
)

// ClusterID names the history that positions belong to: that of one data folder, from its first entry on. Positions of two
// clusters have nothing in common. Zero is none: persdb's id is not known, or not asked for.
type ClusterID [16]byte

// ErrBadClusterID is returned by UnmarshalText for anything but 32 hexadecimal digits.
var ErrBadClusterID = errors.New("a cluster id is 32 hexadecimal digits")

// NewClusterID returns a random one.
func NewClusterID() (id ClusterID) {
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails, by its documentation.
	return id
}

// IsZero reports whether id is none.
func (id ClusterID) IsZero() bool { return id == ClusterID{} }

func (id ClusterID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements encoding.TextMarshaler. None has no digits.
func (id ClusterID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ClusterID) UnmarshalText(text []byte) error {
	var read ClusterID
	if n, err := hex.Decode(read[:], text[:min(len(text), 2*len(read))]); err != nil || len(text) > 0 && (n != len(read) || len(text) != 2*len(read)) {
		return ErrBadClusterID
	}
	*id = read
	return nil
}

// Mastership is what a commit is made under.
type Mastership struct {
	// Cluster is the one that gave the epoch out. A commit to another one is refused; zero is not compared.
	Cluster ClusterID
	Epoch   Epoch
}
