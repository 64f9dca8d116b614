package commitlog

import (
	"context"

	"rideshare/internal/dbaas"
)

// Log stores the entries and issues epochs. Store is the state machine above it and writes entries only through this
// interface.
//
// A log that other processes can write too, such as one on another machine, is used with Config.Shared. Its Head is a
// barrier: it returns nil only if this process can still store entries, and everything within the returned bounds is
// durable.
//
// Claim, Append and Trim are never called concurrently; Read and Head may be called at any time.
type Log interface {
	// Claim issues a new epoch. When it returns, the epoch is durable, and from then on an Append with any older epoch
	// fails. CodeUnknown means that an epoch may have been issued.
	Claim(ctx context.Context) (dbaas.Epoch, error)
	// Append stores r if its epoch is the newest and its seq is the head's plus one. When it returns nil, r is durable:
	// this is the commit point. CodeUnknown means that r may be stored; a later Head shows whether it is, and after that
	// Head it cannot be stored any more. After any other error, such as CodeStaleEpoch, CodeConflict (wrong seq),
	// CodeFull or CodeUnavailable, r is not stored.
	Append(ctx context.Context, r Record) error
	// Read returns consecutive records after seq within limit, but at least one record if any exists. It returns
	// dbaas.ErrGone if the record after seq was trimmed. The result ends before the first damaged record. If that is
	// the record after seq, Read returns CodeDamaged. If limit.Damaged is set, damaged records are returned too.
	Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error)
	// Head returns the range of entries that the log holds.
	Head(ctx context.Context) (Bounds, error)
	// Trim removes the records up to and including seq, but never the newest record. CodeUnknown means that they may have
	// been removed; a later Head shows whether they were. After any other error they were not removed. size is the
	// approximate size of the records in bytes: a log that limits the time of a statement gives a larger trim more time.
	Trim(ctx context.Context, seq dbaas.Seq, size int64) error
	// Close ends running calls of Read and Head, waits for them, and closes the log. Claim, Append and Trim must not be
	// running, and no method may be called afterwards.
	Close() error
}

// SharedLog is a Log that several processes have open. One of them is the active one: Claim, Append, Trim and Head of the
// others fail with dbaas.ErrNotActive, without an effect. A process that is active when its log is opened stays so until
// another one takes over.
type SharedLog interface {
	Log
	// TakeOver makes this process the active one. From then on no step that another process has begun before can have an
	// effect. After an error this process is not active, but may become active later.
	TakeOver(ctx context.Context) error
	// Check returns dbaas.ErrNotActive if another process is the active one. It writes nothing.
	Check(ctx context.Context) error
	// Look returns a range of entries that are durable. It writes nothing and makes no process active.
	Look(ctx context.Context) (Bounds, error)
}

// OtherClusterError is the cause of an error of Config.OpenLog: the log is of another cluster than the data folder.
type OtherClusterError struct{ Log dbaas.ClusterID }

func (e *OtherClusterError) Error() string { return "the log is of cluster " + e.Log.String() }

// Record is one entry and the stored form of its operations: a frame of wire.KindRecords.
type Record struct {
	Entry      dbaas.Entry
	Operations []byte
	// Damage is 0 unless the Limit asked for damaged records too. Damaged changes are left out.
	Damage Damage
}

func (r *Record) size() int64 {
	return int64(len(r.Operations) + r.Entry.Size())
}

// Limit bounds a Read. Bytes counts operations and changes.
type Limit struct {
	Records int
	Bytes   int
	// NoChanges means that the changes of the entries are not needed. A log may still return them.
	NoChanges bool
	// Damaged asks for damaged records too.
	Damaged bool
}

// Bounds is the range of a log: the entries after Trimmed up to Head.
type Bounds struct {
	Head    dbaas.Head
	Trimmed dbaas.Seq
}
