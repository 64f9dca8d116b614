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
	// this is the commit point. CodeUnknown means that r may be stored, and a later Head shows whether it is; after any
	// other error it is certainly not, as with CodeStaleEpoch, CodeConflict (wrong seq), CodeFull and CodeUnavailable.
	Append(ctx context.Context, r Record) error
	// Read returns consecutive records after seq within limit, but at least one if there is any. It returns
	// dbaas.ErrGone if the record after seq was trimmed. The records end before a damaged one; if the first is damaged,
	// Read returns CodeDamaged.
	Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error)
	// Head returns the range of entries that the log holds.
	Head(ctx context.Context) (Bounds, error)
	// Trim removes the records up to and including seq, but never the newest one. CodeUnknown means that they may have
	// been removed, and a later Head shows whether they were; after any other error they were not.
	Trim(ctx context.Context, seq dbaas.Seq) error
	// Close waits for running calls of Read and Head. No other method may be called afterwards.
	Close() error
}

// Record is one entry, with what the log keeps of its operations: a frame of wire.KindRecords.
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
