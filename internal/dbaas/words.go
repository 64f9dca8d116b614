package dbaas

import (
	"slices"
	"time"
)

// Seq is a position in the log: dense, from 1. Zero means before the first entry.
type Seq uint64

// Epoch is the number of one master's term. persdb issues epochs; they only grow, and zero means no epoch.
type Epoch uint64

// ShardID names the shard that an operation or entry belongs to. There is one
// shard, 0, today; the frames and the log carry it so that there can be more.
type ShardID uint32

// WorkerID identifies one run of a worker: a container id, or the launcher's own id if workers are not containers. It
// is never reused.
type WorkerID string

// Role is the current role of a worker.
type Role string

// The roles. A worker without a role is starting or catching up.
const (
	RoleNone   Role = ""
	RoleMaster Role = "master"
	RoleSlave  Role = "slave"
)

// Head is persdb's newest position and newest epoch, read together.
type Head struct {
	Cluster ClusterID `json:"cluster,omitzero"` // cluster of Seq and Epoch
	Seq     Seq       `json:"seq"`
	Epoch   Epoch     `json:"epoch"`
}

// ChangeKind says how a Change is applied.
type ChangeKind uint8

const (
	// ChangeSet is an SQLite changeset, from the log of an older version. No replica applies it: a replica that finds
	// one takes a snapshot.
	ChangeSet ChangeKind = 1
	// ChangeSchema is the text of one schema statement.
	ChangeSchema ChangeKind = 2
	// ChangeRows is rows in the order in which they changed, as internal/replication records them.
	ChangeRows ChangeKind = 3
	// ChangeFeed is what consumers of the change feed need in addition to the ChangeRows before it, as internal/rowlog
	// describes. It is in persdb's log, and replicas do not get it.
	ChangeFeed ChangeKind = 4
)

// Change is one part of what an entry changed.
type Change struct {
	Kind ChangeKind
	Data []byte
}

// Entry is one commit as replicas need it. Changes are applied in order, in one
// transaction; an entry without changes only moves the position.
type Entry struct {
	Shard   ShardID
	Cluster ClusterID // cluster of Seq and Epoch
	Seq     Seq
	Epoch   Epoch
	At      time.Time // when persdb committed it, millisecond resolution
	Changes []Change
	// ChangesOmitted reports that the changes are left out because they are large; they can be read from the log.
	ChangesOmitted bool
}

// ForReplicas returns the entry without what only consumers of the change feed need.
func (e *Entry) ForReplicas() Entry {
	out := *e
	out.Changes = slices.DeleteFunc(slices.Clone(e.Changes), func(c Change) bool { return c.Kind == ChangeFeed })
	return out
}

// Size returns the total number of bytes in the changes.
func (e *Entry) Size() int {
	n := 0
	for i := range e.Changes {
		n += len(e.Changes[i].Data)
	}
	return n
}
