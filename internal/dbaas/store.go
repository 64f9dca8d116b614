package dbaas

import (
	"hash"
	"hash/crc32"
	"io"
)

// Commit is persdb's answer to one batch of operations.
type Commit struct {
	// Results has one result for each operation, in the same order.
	Results []OperationResult
	// Entry is what the replicas need; nil when every operation was known or refused.
	Entry *Entry
}

// Page is a part of the log: consecutive entries and the head at that moment.
type Page struct {
	Entries []Entry
	Head    Head
}

// Snapshot is a whole copy of the application's tables at one position. The
// position is inside the file too. The reader closes Body.
type Snapshot struct {
	Head Head
	Body io.ReadCloser
	// Sum returns the checksum (NewSnapshotSum) that Body has by its maker's account, once Body has been read to io.EOF.
	// Without it the copy is not whole, and of no use.
	Sum func() (sum uint32, whole bool)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewSnapshotSum returns what sums up a snapshot's bytes: CRC-32C, as ext4, iSCSI and Kafka have it, against
// damage on the way. It is no proof of who made them. On a core with the instruction for it 200 MiB take some 10 ms,
// where SHA-256 takes 100 to 450.
func NewSnapshotSum() hash.Hash32 { return crc32.New(castagnoli) }

// TableHashes are the content hashes of all application tables at one position.
// Two databases with equal Seq and different hashes have diverged.
type TableHashes struct {
	Seq    Seq               `json:"seq"`
	Tables map[string]string `json:"tables"`
}
