package commitlog

import (
	"context"
	"time"

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
	// Append of any older one fails from then on.
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
	// as limit says. It returns dbaas.ErrGone if the record after seq was trimmed.
	Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error)
	// Head returns what the log has.
	Head(ctx context.Context) (Bounds, error)
	// Trim forgets the records up to and including seq, never the newest one.
	// at is the latest time of what is forgotten; Head returns it from then on.
	Trim(ctx context.Context, seq dbaas.Seq, at time.Time) error
}

// Record is one entry with what the log remembers of its operations: a frame of
// frame.KindRecords.
type Record struct {
	Entry      dbaas.Entry
	Operations []byte
}

// Limit bounds a Read. Bytes counts operations and changes.
type Limit struct {
	Records int
	Bytes   int
}

// Bounds is what a log has: the entries after Trimmed up to Head.
type Bounds struct {
	Head    dbaas.Head
	Trimmed dbaas.Seq
	// Horizon is the latest time of a trimmed entry; zero if nothing was trimmed.
	Horizon time.Time
}
