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

// Sizes are what persdb's database takes, in bytes.
type Sizes struct {
	// Tables is what the tables and indexes take: about what a replica is.
	Tables int64 `json:"tables"`
	// Limit is how large Tables may get; 0 without a limit.
	Limit int64 `json:"limit"`
	// Log is what the log keeps: entries and answers.
	Log int64 `json:"log"`
	// File is the database file with its WAL: tables, log and free pages.
	File int64 `json:"file"`
	// DiskFree is the room that is left on the file's disk.
	DiskFree int64 `json:"disk_free"`
	// Full says that Limit has stopped an operation, and that there is not much more room since.
	Full bool `json:"full"`
	// DiskFull says that the last write found no room.
	DiskFull bool `json:"disk_full"`
}

// TableHashes are the content hashes of all application tables at one position.
// Two databases with equal Seq and different hashes have diverged.
type TableHashes struct {
	Seq    Seq               `json:"seq"`
	Tables map[string]string `json:"tables"`
	// Damaged are the tables whose rows are not those that persdb has committed. Only persdb knows.
	Damaged []string `json:"damaged,omitempty"`
}

// HashFrom is a place in the tables, by name and then by row id. The zero value is the start.
type HashFrom struct {
	Table string `json:"table,omitempty"`
	// Within says that the place is inside of Table, after the row with the id After.
	Within bool  `json:"within,omitempty"`
	After  int64 `json:"after,omitempty"`
}

// HashPart are the hashes of some rows from a place on. Two databases with the same Seq have the same HashPart from a place
// if they are equal there.
type HashPart struct {
	TableHashes

	// Limit is the number of bytes after which it ended.
	Limit int `json:"limit"`
	// Next is where the next part begins; zero at the end of all.
	Next HashFrom `json:"next"`
}

// HashPartBytes is how much persdb hashes at once: a part of a second, in which a reader keeps a WAL from starting again.
const HashPartBytes = 64 << 20
