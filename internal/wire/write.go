package wire

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// WriteRequest is a batch of operations sent to the master, or by the master to persdb.
type WriteRequest struct {
	Shard      dbaas.ShardID
	Operations []dbaas.Operation
}

// The flags of an operation.
const (
	opAtomic = 1 << iota
	opResent
	opLoad
	opReplace
	opQualify
	opLimited // the time of a statement follows
	opCluster // a cluster id follows
	opFlags   // the first unused bit
)

// Encode returns the frame, or ErrTooLarge. Deadlines are encoded as the time remaining at now.
func (r WriteRequest) Encode(now time.Time) ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+256*len(r.Operations)), KindWriteRequest, r.Shard)
	b = packed.AppendUint(b, uint64(len(r.Operations)))
	for i := range r.Operations {
		b = appendOperation(b, &r.Operations[i], now)
	}
	return sized(b)
}

func appendOperation(b []byte, op *dbaas.Operation, now time.Time) []byte {
	var flags byte
	if op.Atomic {
		flags |= opAtomic
	}
	if op.Resent {
		flags |= opResent
	}
	switch op.Load {
	case dbaas.LoadText:
		flags |= opLoad
	case dbaas.LoadReplace:
		flags |= opLoad | opReplace
	case dbaas.LoadNone:
	}
	if op.QualifyColumns {
		flags |= opQualify
	}
	if op.StatementTime > 0 {
		flags |= opLimited
	}
	if !op.Cluster.IsZero() {
		flags |= opCluster
	}
	b = append(b, flags)
	b = append(b, op.ID[:]...)
	b = append(b, op.Fingerprint[:]...)
	b = packed.AppendUint(b, uint64(op.SeenSeq))
	if flags&opCluster != 0 {
		b = append(b, op.Cluster[:]...)
	}
	b = appendLeft(b, op.Deadline, now)
	b = packed.AppendBytes(b, op.RequestID)
	b = packed.AppendBytes(b, op.GiveUp)
	b = appendStatementTime(b, op.StatementTime)
	return appendStatements(b, op.Statements)
}

// DecodeWriteRequest decodes a frame of KindWriteRequest. Texts are copies; blobs are parts of b. Deadlines count
// from now, when the frame arrived.
func DecodeWriteRequest(b []byte, now time.Time) (WriteRequest, error) {
	d, shard, err := open(b, KindWriteRequest)
	if err != nil {
		return WriteRequest{}, err
	}
	r := WriteRequest{Shard: shard, Operations: list(d, func(d *decoder) dbaas.Operation { return d.operation(now) })}
	return r, d.end()
}

func (d *decoder) operation(now time.Time) dbaas.Operation {
	flags := d.Byte()
	if flags >= opFlags || flags&opReplace != 0 && flags&opLoad == 0 {
		d.Fail()
	}
	return dbaas.Operation{
		ID:          dbaas.OpID(d.sixteen()),
		Fingerprint: dbaas.Fingerprint(d.sixteen()),
		SeenSeq:     dbaas.Seq(d.Uint()),
		Cluster:     d.cluster(flags&opCluster != 0),
		Deadline:    d.left(now),
		Atomic:      flags&opAtomic != 0,
		Resent:      flags&opResent != 0,
		Load:        loadMode(flags),
		RequestID:   d.Text(),
		GiveUp:      d.Text(),

		QualifyColumns: flags&opQualify != 0,
		StatementTime:  d.statementTime(flags&opLimited != 0),
		Statements:     d.statements(),
	}
}

// cluster decodes a cluster id if the flags announce one. A zero id is malformed, because zero is encoded as no id.
func (d *decoder) cluster(is bool) (id dbaas.ClusterID) {
	if !is {
		return id
	}
	if id = d.sixteen(); id.IsZero() {
		d.Fail()
	}
	return id
}

func loadMode(flags byte) dbaas.LoadMode {
	switch {
	case flags&opReplace != 0:
		return dbaas.LoadReplace
	case flags&opLoad != 0:
		return dbaas.LoadText
	}
	return dbaas.LoadNone
}

func (d *decoder) sixteen() (v [16]byte) {
	copy(v[:], d.Take(16))
	return v
}

// WriteAnswer is the answer to the operation at place Index of its request.
type WriteAnswer struct {
	Index  int
	Result dbaas.OperationResult
}

// WriteReply answers some or all operations of a request. Last marks the final reply to the request.
type WriteReply struct {
	Shard   dbaas.ShardID
	Last    bool
	Answers []WriteAnswer
}

// Encode returns the frame, or ErrTooLarge.
func (r WriteReply) Encode() ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+64*len(r.Answers)), KindWriteReply, r.Shard)
	b = appendBool(b, r.Last)
	b = packed.AppendUint(b, uint64(len(r.Answers)))
	for i := range r.Answers {
		b = packed.AppendUint(b, uint64(r.Answers[i].Index))
		b = appendResult(b, &r.Answers[i].Result)
	}
	return sized(b)
}

// DecodeWriteReply decodes a frame of KindWriteReply. Blobs are parts of b.
func DecodeWriteReply(b []byte) (WriteReply, error) {
	d, shard, err := open(b, KindWriteReply)
	if err != nil {
		return WriteReply{}, err
	}
	r := WriteReply{Shard: shard, Last: d.bool(), Answers: list(d, (*decoder).writeAnswer)}
	return r, d.end()
}

func (d *decoder) writeAnswer() WriteAnswer {
	return WriteAnswer{Index: d.index(), Result: d.result()}
}

func appendResult(b []byte, r *dbaas.OperationResult) []byte {
	b = append(b, r.ID[:]...)
	b = packed.AppendUint(b, uint64(r.Seq))
	b = packed.AppendBytes(b, string(r.Code))
	b = packed.AppendBytes(b, r.Message)
	b = packed.AppendUint(b, uint64(len(r.Statements)))
	for i := range r.Statements {
		b = appendStatementResult(b, &r.Statements[i])
	}
	return b
}

func appendStatementResult(b []byte, s *dbaas.StatementResult) []byte {
	b = packed.AppendBytes(b, string(s.Code))
	b = packed.AppendBytes(b, s.Message)
	b = packed.AppendInt(b, s.LastInsertID)
	b = packed.AppendInt(b, s.RowsAffected)
	b = appendTexts(b, s.Columns)
	b = appendTexts(b, s.Types)
	b = packed.AppendUint(b, uint64(len(s.Rows)))
	for _, row := range s.Rows {
		b = appendValues(b, row)
	}
	return b
}

func (d *decoder) result() dbaas.OperationResult {
	return dbaas.OperationResult{
		ID:         dbaas.OpID(d.sixteen()),
		Seq:        dbaas.Seq(d.Uint()),
		Code:       dbaas.Code(d.Text()),
		Message:    d.Text(),
		Statements: list(d, (*decoder).statementResult),
	}
}

func (d *decoder) statementResult() dbaas.StatementResult {
	return dbaas.StatementResult{
		Code:         dbaas.Code(d.Text()),
		Message:      d.Text(),
		LastInsertID: d.Int(),
		RowsAffected: d.Int(),
		Columns:      d.texts(),
		Types:        d.texts(),
		Rows:         list(d, (*decoder).row),
	}
}

func (d *decoder) row() dbaas.Row { return d.values() }
