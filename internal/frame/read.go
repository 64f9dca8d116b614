package frame

import "rideshare/internal/dbaas"

// ReadRequest is a batch of reads on its way to a worker. Answers name a read by
// its place in Reads.
type ReadRequest struct {
	Shard dbaas.ShardID
	Reads []dbaas.Read
}

const (
	readLinearizable = 1 << iota
	readTimings
	readBlobArray
	readFlags // the first bit that has no meaning
)

// Encode returns the frame, or ErrTooLarge.
func (r ReadRequest) Encode() ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+160*len(r.Reads)), KindReadRequest, r.Shard)
	b = appendUint(b, uint64(len(r.Reads)))
	for i := range r.Reads {
		b = appendRead(b, &r.Reads[i])
	}
	return sized(b)
}

func appendRead(b []byte, r *dbaas.Read) []byte {
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
	b = append(b, flags, byte(r.Format))
	b = appendText(b, r.RequestID)
	b = appendTime(b, r.Deadline)
	b = appendUint(b, uint64(r.MinSeq))
	return appendStatements(b, r.Statements)
}

// DecodeReadRequest decodes a frame of KindReadRequest. Texts are copies; blobs
// are parts of b.
func DecodeReadRequest(b []byte) (ReadRequest, error) {
	d, shard, err := open(b, KindReadRequest)
	if err != nil {
		return ReadRequest{}, err
	}
	r := ReadRequest{Shard: shard, Reads: list(d, (*decoder).read)}
	return r, d.end()
}

func (d *decoder) read() dbaas.Read {
	flags, format := d.byte(), dbaas.Format(d.byte())
	if flags >= readFlags || format < dbaas.FormatObjects || format > dbaas.FormatAssociative {
		d.fail(ErrMalformed)
	}
	return dbaas.Read{
		Linearizable: flags&readLinearizable != 0,
		Timings:      flags&readTimings != 0,
		BlobArray:    flags&readBlobArray != 0,
		Format:       format,
		RequestID:    d.text(),
		Deadline:     d.time(),
		MinSeq:       dbaas.Seq(d.uint()),
		Statements:   d.statements(),
	}
}

// ReadAnswer is the answer to the read at place Index of its request.
type ReadAnswer struct {
	Index  int
	Result dbaas.ReadResult
}

// ReadReply answers some or all reads of a request; the reply with Last set is
// the end of it. A worker sends what is ready and lets slow reads follow.
type ReadReply struct {
	Shard   dbaas.ShardID
	Last    bool
	Answers []ReadAnswer
}

// Encode returns the frame, or ErrTooLarge.
func (r ReadReply) Encode() ([]byte, error) {
	size := 64
	for i := range r.Answers {
		size += 32 + len(r.Answers[i].Result.Body)
	}
	b := appendHeader(make([]byte, 0, size), KindReadReply, r.Shard)
	b = appendBool(b, r.Last)
	b = appendUint(b, uint64(len(r.Answers)))
	for i := range r.Answers {
		a := &r.Answers[i]
		b = appendUint(b, uint64(a.Index)) //nolint:gosec // a place in a slice.
		b = appendText(b, string(a.Result.Code))
		b = appendText(b, a.Result.Message)
		b = appendUint(b, uint64(a.Result.Seq))
		b = appendBlob(b, a.Result.Body)
	}
	return sized(b)
}

// DecodeReadReply decodes a frame of KindReadReply. Bodies are parts of b.
func DecodeReadReply(b []byte) (ReadReply, error) {
	d, shard, err := open(b, KindReadReply)
	if err != nil {
		return ReadReply{}, err
	}
	r := ReadReply{Shard: shard, Last: d.bool(), Answers: list(d, (*decoder).readAnswer)}
	return r, d.end()
}

// ReadHeld is a reply without answers: the worker has acknowledged the request before its
// end, so that the broker gives it to nobody else, and still works at it. It is
// followed by replies of the usual kind, unless the worker dies.
type ReadHeld struct {
	Shard  dbaas.ShardID
	Worker dbaas.WorkerID
}

// Encode returns the frame, or ErrTooLarge.
func (r ReadHeld) Encode() ([]byte, error) {
	return sized(appendText(appendHeader(nil, KindReadHeld, r.Shard), string(r.Worker)))
}

// DecodeReadHeld decodes a frame of KindReadHeld.
func DecodeReadHeld(b []byte) (ReadHeld, error) {
	d, shard, err := open(b, KindReadHeld)
	if err != nil {
		return ReadHeld{}, err
	}
	r := ReadHeld{Shard: shard, Worker: dbaas.WorkerID(d.text())}
	return r, d.end()
}

func (d *decoder) readAnswer() ReadAnswer {
	return ReadAnswer{Index: d.index(), Result: dbaas.ReadResult{
		Code:    dbaas.Code(d.text()),
		Message: d.text(),
		Seq:     dbaas.Seq(d.uint()),
		Body:    d.blob(),
	}}
}

func (d *decoder) index() int {
	v := d.uint()
	if v > MaxBytes {
		d.fail(ErrMalformed)
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
