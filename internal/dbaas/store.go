package dbaas

import "io"

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
	// Sum returns the SHA-256 that Body has by its maker's account, once Body has been read to io.EOF.
	// Without it the copy is not whole, and of no use.
	Sum func() (sum [32]byte, whole bool)
}

// TableHashes are the content hashes of all application tables at one position.
// Two databases with equal Seq and different hashes have diverged.
type TableHashes struct {
	Seq    Seq               `json:"seq"`
	Tables map[string]string `json:"tables"`
}
