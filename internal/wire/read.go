package wire

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/readtags"
)

// ReadRequest is a batch of reads sent to a worker. Answers refer to a read by its index in Reads.
type ReadRequest struct {
	Shard dbaas.ShardID
	// Again reports that a worker already received these reads and has died: one of them may be the cause.
	Again bool
	// Cluster is the cluster of the positions in Reads; zero if it is not known.
	Cluster dbaas.ClusterID
	Reads   []dbaas.Read
}

const (
	readLinearizable = 1 << iota
	readTimings
	readBlobArray
	readAsQuery
	readQualify
	readLimited // the time of a statement follows
	readTags
	readFlags // the first unused bit
)

// Encode returns the frame, or ErrTooLarge. Deadlines are encoded as the time remaining at now.
func (r ReadRequest) Encode(now time.Time) ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+160*len(r.Reads)), KindReadRequest, r.Shard)
	b = appendBool(b, r.Again)
	b = append(b, r.Cluster[:]...)
	b = packed.AppendUint(b, uint64(len(r.Reads)))
	for i := range r.Reads {
		b = appendRead(b, &r.Reads[i], now)
	}
	return sized(b)
}

func appendRead(b []byte, r *dbaas.Read, now time.Time) []byte {
	var flags byte
	if r.Linearizable {
		flags |= readLinearizable
	}
	if r.Timings {
		flags |= readTimings
	}
	if r.BlobArray {
		flags |= readBlobArray
	}
	if r.AsQuery {
		flags |= readAsQuery
	}
	if r.QualifyColumns {
		flags |= readQualify
	}
	if r.StatementTime > 0 {
		flags |= readLimited
	}
	if r.WantTags {
		flags |= readTags
	}
	b = append(b, flags, byte(r.Format))
	b = packed.AppendBytes(b, r.RequestID)
	b = appendLeft(b, r.Deadline, now)
	b = packed.AppendUint(b, uint64(r.MinSeq))
	b = appendStatementTime(b, r.StatementTime)
	return appendStatements(b, r.Statements)
}

// DecodeReadRequest decodes a frame of KindReadRequest. Texts are copies; blobs are parts of b. Deadlines count from
// now, when the frame arrived.
func DecodeReadRequest(b []byte, now time.Time) (ReadRequest, error) {
	d, shard, err := open(b, KindReadRequest)
	if err != nil {
		return ReadRequest{}, err
	}
	r := ReadRequest{Shard: shard, Again: d.bool(), Cluster: d.sixteen(), Reads: list(d, func(d *decoder) dbaas.Read { return d.read(now) })}
	return r, d.end()
}

func (d *decoder) read(now time.Time) dbaas.Read {
	flags, format := d.Byte(), dbaas.Format(d.Byte())
	if flags >= readFlags || format < dbaas.FormatObjects || format > dbaas.FormatAssociative {
		d.Fail()
	}
	return dbaas.Read{
		Linearizable:   flags&readLinearizable != 0,
		Timings:        flags&readTimings != 0,
		BlobArray:      flags&readBlobArray != 0,
		AsQuery:        flags&readAsQuery != 0,
		QualifyColumns: flags&readQualify != 0,
		WantTags:       flags&readTags != 0,
		Format:         format,
		RequestID:      d.Text(),
		Deadline:       d.left(now),
		MinSeq:         dbaas.Seq(d.Uint()),
		StatementTime:  d.statementTime(flags&readLimited != 0),
		Statements:     d.statements(),
	}
}

// ReadAnswer is the answer to the read at place Index of its request.
type ReadAnswer struct {
	Index  int
	Result dbaas.ReadResult
}

// ReadReply answers some or all reads of a request. Last marks the final reply to the request. A worker sends ready
// answers first and slow reads later.
type ReadReply struct {
	Shard   dbaas.ShardID
	Last    bool
	Answers []ReadAnswer
}

// Encode returns the frame, or ErrTooLarge. Tags are sent only if an answer has some, that is, if the request asked for
// them.
func (r ReadReply) Encode() ([]byte, error) {
	size, kind := 64, KindReadReply
	for i := range r.Answers {
		size += 32 + len(r.Answers[i].Result.Body) + len(r.Answers[i].Result.Tags)
		if len(r.Answers[i].Result.Tags) > 0 {
			kind = KindTaggedReply
		}
	}
	b := appendHeader(make([]byte, 0, size), kind, r.Shard)
	b = appendBool(b, r.Last)
	b = packed.AppendUint(b, uint64(len(r.Answers)))
	for i := range r.Answers {
		a := &r.Answers[i]
		b = packed.AppendUint(b, uint64(a.Index))
		b = packed.AppendBytes(b, string(a.Result.Code))
		b = packed.AppendBytes(b, a.Result.Message)
		b = packed.AppendUint(b, uint64(a.Result.Seq))
		b = packed.AppendBytes(b, a.Result.Body)
		if kind == KindTaggedReply {
			b = packed.AppendBytes(b, a.Result.Tags)
		}
	}
	return sized(b)
}

// DecodeReadReply decodes a frame of KindReadReply or KindTaggedReply. Bodies and tags are parts of b.
func DecodeReadReply(b []byte) (ReadReply, error) {
	kind, err := KindOf(b)
	if err != nil {
		return ReadReply{}, err
	}
	each := (*decoder).readAnswer
	if kind == KindTaggedReply {
		each = (*decoder).taggedAnswer
	} else {
		kind = KindReadReply
	}
	d, shard, err := open(b, kind)
	if err != nil {
		return ReadReply{}, err
	}
	r := ReadReply{Shard: shard, Last: d.bool(), Answers: list(d, each)}
	return r, d.end()
}

// ReadHeld is a reply without answers. It announces that the worker has acknowledged the request early, so the broker
// will not redeliver it, and is still working on it. Ordinary replies follow, unless the worker dies.
type ReadHeld struct {
	Shard  dbaas.ShardID
	Worker dbaas.WorkerID
	// Running is the index of the read that the worker starts now, if it runs the reads one by one.
	Running *int
}

// Encode returns the frame, or ErrTooLarge.
func (r ReadHeld) Encode() ([]byte, error) {
	b := packed.AppendBytes(appendHeader(nil, KindReadHeld, r.Shard), string(r.Worker))
	b = appendBool(b, r.Running != nil)
	if r.Running != nil {
		b = packed.AppendUint(b, uint64(*r.Running))
	}
	return sized(b)
}

// DecodeReadHeld decodes a frame of KindReadHeld.
func DecodeReadHeld(b []byte) (ReadHeld, error) {
	d, shard, err := open(b, KindReadHeld)
	if err != nil {
		return ReadHeld{}, err
	}
	r := ReadHeld{Shard: shard, Worker: dbaas.WorkerID(d.Text())}
	if d.bool() {
		i := d.index()
		r.Running = &i
	}
	return r, d.end()
}

func (d *decoder) readAnswer() ReadAnswer {
	return ReadAnswer{Index: d.index(), Result: dbaas.ReadResult{
		Code:    dbaas.Code(d.Text()),
		Message: d.Text(),
		Seq:     dbaas.Seq(d.Uint()),
		Body:    d.Bytes(),
	}}
}

func (d *decoder) taggedAnswer() ReadAnswer {
	a := d.readAnswer()
	tags := readtags.Tags(d.Bytes())
	if tags.Check() != nil {
		d.Fail()
	}
	if len(tags) > 0 {
		a.Result.Tags = tags
	}
	return a
}

func (d *decoder) index() int {
	v := d.Uint()
	if v > MaxBytes {
		d.Fail()
		return 0
	}
	return int(v)
}

func sized(b []byte) ([]byte, error) {
	if len(b) > MaxBytes {
		return nil, ErrTooLarge
	}
	return b, nil
}
