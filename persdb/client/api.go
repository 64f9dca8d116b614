package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// The paths of persdb's internal API. Errors are problem bodies with a code.
const (
	PathClaim      = "/v1/claim"       // POST, answers a dbaas.Head with only the epoch
	PathCommit     = "/v1/commit"      // POST a write request, with HeaderEpoch and HeaderCluster; answers as EncodeCommit says
	PathHead       = "/v1/head"        // GET, answers a dbaas.Head
	PathLog        = "/v1/log"         // GET with ?after=&wait= in milliseconds, answers a frame of entries; the answer and a CodeGone error have the headers of SetBounds
	PathChanges    = "/v1/changes"     // GET like PathLog, with &size= in bytes: the entries in the form that the change feed needs
	PathSnapshot   = "/v1/snapshot"    // GET, answers the database file, with the headers of SetHead, and HeaderSum as trailer
	PathOperations = "/v1/operations/" // GET with an id appended, answers a write reply with one answer
	PathHashes     = "/v1/hashes"      // GET, answers dbaas.TableHashes
	PathSizes      = "/v1/sizes"       // GET, answers dbaas.Sizes
	PathBackup     = "/v1/backup"      // GET with ?sql=true|false and any number of &table=, answers a file or SQL text, with the headers of SetHead
	PathFileSQL    = "/v1/file-sql"    // POST a database file, answers its SQL text
	PathHashPart   = "/v1/hashes/part" // POST a dbaas.HashFrom, answers a dbaas.HashPart
)

// Headers. Numbers are decimal, the checksum is CRC-32C in hex.
const (
	HeaderSeq   = "X-Seq"
	HeaderEpoch = "X-Epoch"
	HeaderSum   = "X-Crc32c"
	// HeaderCluster is sent with answers that have a position, and with commits of a master that knows its cluster.
	HeaderCluster = "X-Cluster-Id"
	// HeaderTakeOver, with any value, asks an inactive persdb to become the active one before it answers. It is sent with
	// calls that only the active one answers, after all addresses were tried.
	HeaderTakeOver = "X-Take-Over"
	// HeaderFirst is sent with a page of the log, and with the error for a page that the log no longer has.
	HeaderFirst = "X-First-Seq"
)

// sumDigits is the number of hexadecimal digits of a checksum.
const sumDigits = 8

// SetHead writes a position to the headers of an answer.
func SetHead(to http.Header, h dbaas.Head) {
	to.Set(HeaderCluster, h.Cluster.String())
	to.Set(HeaderSeq, strconv.FormatUint(uint64(h.Seq), 10))
	to.Set(HeaderEpoch, strconv.FormatUint(uint64(h.Epoch), 10))
}

// SetBounds writes the head of a log page and the position of the log's first entry to the headers of an answer.
func SetBounds(to http.Header, p dbaas.Page) {
	SetHead(to, p.Head)
	to.Set(HeaderFirst, strconv.FormatUint(uint64(p.First), 10))
}

// boundsOf returns a page without entries: the bounds that SetBounds wrote.
func boundsOf(h http.Header) (dbaas.Page, error) {
	head, err := headOf(h)
	if err != nil {
		return dbaas.Page{}, err
	}
	first, err := strconv.ParseUint(h.Get(HeaderFirst), 10, 64)
	if err != nil {
		return dbaas.Page{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer does not say where the log begins", err)
	}
	return dbaas.Page{Head: head, First: dbaas.Seq(first)}, nil
}

func headOf(h http.Header) (dbaas.Head, error) {
	seq, err := strconv.ParseUint(h.Get(HeaderSeq), 10, 64)
	epoch, err2 := strconv.ParseUint(h.Get(HeaderEpoch), 10, 64)
	var cluster dbaas.ClusterID
	if err = errors.Join(err, err2, cluster.UnmarshalText([]byte(h.Get(HeaderCluster)))); err != nil {
		return dbaas.Head{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer has no position", err)
	}
	return dbaas.Head{Cluster: cluster, Seq: dbaas.Seq(seq), Epoch: dbaas.Epoch(epoch)}, nil
}

// SetSum writes the checksum of a snapshot to the trailer.
func SetSum(to http.Header, sum uint32) { to.Set(HeaderSum, fmt.Sprintf("%0*x", sumDigits, sum)) }

// sumOf reads the checksum that follows a snapshot, and reports whether it arrived.
func sumOf(trailer http.Header) (sum uint32, whole bool) {
	digits := trailer.Get(HeaderSum)
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && len(digits) == sumDigits
}

// EncodeCommit encodes a commit as the body of an answer: the length of a write reply, the write reply, and then the
// frame of the entry, if there is one.
func EncodeCommit(c dbaas.Commit) ([]byte, error) {
	reply := wire.WriteReply{Last: true, Answers: make([]wire.WriteAnswer, len(c.Results))}
	for i := range c.Results {
		reply.Answers[i] = wire.WriteAnswer{Index: i, Result: c.Results[i]}
	}
	results, err := reply.Encode()
	if err != nil {
		return nil, err
	}
	var entry []byte
	if c.Entry != nil {
		entry = c.Entry.Frame
	}
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(results)+len(entry)), uint64(len(results)))
	return append(append(b, results...), entry...), nil
}

var errShort = errors.New("the answer does not fit the request")

func decodeCommit(b []byte, want int) (dbaas.Commit, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return dbaas.Commit{}, errShort
	}
	results, entry := b[n:n+int(size)], b[n+int(size):]
	reply, err := wire.DecodeWriteReply(results)
	if err != nil {
		return dbaas.Commit{}, err
	}
	if len(reply.Answers) != want {
		return dbaas.Commit{}, errShort
	}
	out := dbaas.Commit{Results: make([]dbaas.OperationResult, want)}
	for i, a := range reply.Answers {
		if a.Index != i {
			return dbaas.Commit{}, errShort
		}
		out.Results[i] = a.Result
	}
	if len(entry) > 0 {
		at, err := wire.CheckEntry(entry)
		if err != nil {
			return dbaas.Commit{}, err
		}
		out.Entry = &dbaas.EncodedEntry{Head: at, Frame: entry}
	}
	return out, nil
}
