package commitlog

import (
	"context"

	"rideshare/internal/dbaas"
)

// Log keeps the entries and hands out epochs. Store is the state machine above it
// and writes entries through this interface only. DESIGN.md says what a log on
// another machine would have to do differently.
//
// Claim, Append and Trim are never called concurrently; Read and Head may be
// called at any time.
type Log interface {
	// Claim hands out a new epoch. When it returns, the epoch is durable, and an
	// Append of any older one fails from then on. CodeUnknown means that one may have been handed out.
	Claim(ctx context.Context) (dbaas.Epoch, error)
	// Append stores r if its epoch is the newest and its seq is the head's plus one.
	// It is the last step before the state machine's COMMIT. Errors with
	// CodeStaleEpoch, CodeConflict (wrong seq), CodeFull and CodeUnavailable mean surely not
	// stored; CodeUnknown means that it may be, and Head tells later.
	//
	// A log in the state machine's own file joins the open transaction and is
	// durable with its COMMIT; any other log is durable when Append returns.
	Append(ctx context.Context, r Record) error
	// Read returns consecutive records after seq, at least one if there is one, at most
	// as limit says. It returns dbaas.ErrGone if the record after seq was trimmed. Records end before one that is damaged; it
	// returns CodeDamaged if that is the first.
	Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error)
	// Head returns what the log has.
	Head(ctx context.Context) (Bounds, error)
	// Trim forgets the records up to and including seq, never the newest one.
	// CodeUnknown means that they may be forgotten, and Head tells later; any other error, that they are not.
	Trim(ctx context.Context, seq dbaas.Seq) error
}

// Record is one entry with what the log remembers of its operations: a frame of
// frame.KindRecords.
type Record struct {
	Entry      dbaas.Entry
	Operations []byte
	// Damage is 0 unless the Limit asked for damaged records too. Damaged changes are not there.
	Damage Damage
}

func (r *Record) size() int64 {
	return int64(len(r.Operations) + r.Entry.Size())
}

// Limit bounds a Read. Bytes counts operations and changes.
type Limit struct {
	Records int
	Bytes   int
	// NoChanges says that the changes of the entries are not needed. A log may return them all the same.
	NoChanges bool
	// Damaged asks for damaged records too.
	Damaged bool
}

// Bounds is what a log has: the entries after Trimmed up to Head.
type Bounds struct {
	Head    dbaas.Head
	Trimmed dbaas.Seq
}
