package commitlog

import (
	"context"

	"rideshare/internal/dbaas"
)

// Log stores the entries and issues epochs. Store is the state machine above it and writes entries only through this
// interface. DESIGN.md says what a log on another machine would have to do differently.
//
// Claim, Append and Trim are never called concurrently; Read and Head may be called at any time.
type Log interface {
	// Claim issues a new epoch. When it returns, the epoch is durable, and from then on an Append with any older epoch
	// fails. CodeUnknown means that an epoch may have been issued.
	Claim(ctx context.Context) (dbaas.Epoch, error)
	// Append stores r if its epoch is the newest and its seq is the head's plus one. When it returns nil, r is durable:
	// this is the commit point. CodeUnknown means that r may be stored; a later Head shows whether it is. After any
	// other error, such as CodeStaleEpoch, CodeConflict (wrong seq), CodeFull or CodeUnavailable, r is not stored.
	Append(ctx context.Context, r Record) error
	// Read returns consecutive records after seq within limit, but at least one record if any exists. It returns
	// dbaas.ErrGone if the record after seq was trimmed. The result ends before the first damaged record. If that is
	// the record after seq, Read returns CodeDamaged. If limit.Damaged is set, damaged records are returned too.
	Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error)
	// Head returns the range of entries that the log holds.
	Head(ctx context.Context) (Bounds, error)
	// Trim removes the records up to and including seq, but never the newest record. CodeUnknown means that they may
	// have been removed; a later Head shows whether they were. After any other error they were not removed.
	Trim(ctx context.Context, seq dbaas.Seq) error
	// Close closes the log. No other method may be running, and none may be called afterwards.
	Close() error
}

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
