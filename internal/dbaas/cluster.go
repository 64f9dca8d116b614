package dbaas

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
)

// ClusterID identifies the history of one data folder, from its first entry on. Positions of different clusters cannot
// be compared. Zero means that persdb's id is not known, or must not be compared.
type ClusterID [16]byte

// ErrBadClusterID is returned by UnmarshalText for anything but 32 hexadecimal digits.
var ErrBadClusterID = errors.New("a cluster id is 32 hexadecimal digits")

// NewClusterID returns a random id.
func NewClusterID() (id ClusterID) {
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails, by its documentation.
	return id
}

// IsZero reports whether id is unset.
func (id ClusterID) IsZero() bool { return id == ClusterID{} }

func (id ClusterID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements encoding.TextMarshaler. The zero id becomes empty text.
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

// Leadership identifies the master that makes a commit.
type Leadership struct {
	// Cluster is the cluster that issued Epoch. A persdb of another cluster refuses the commit. Zero is not compared.
	Cluster ClusterID
	Epoch   Epoch
}
