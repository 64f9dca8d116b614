// Package rowlog defines the form in which a commit's rows are recorded, and renders records for consumers of the
// change feed. It does not use the engine: internal/replication writes and applies the records, the orchestrator
// renders them.
package rowlog

import (
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// The records of a dbaas.ChangeRows, in order. Numbers, texts and values are as in package packed. A row's
// identity is its row id, or the values of its key in a table WITHOUT ROWID.
const (
	Table    = 'T' // name, number of columns, 1 for WITHOUT ROWID: the table of the following records
	Insert   = 'I' // the row id (none in a table WITHOUT ROWID), a value for each column
	Update   = 'U' // identity, the new row id (none in a table WITHOUT ROWID), then (place+1, old value, new value) for each changed column, 0
	Delete   = 'D' // identity
	Empty    = 'E' // name of a table whose rows are all deleted
	Sequence = 'Q' // number of rows, then row id, name and seq of each: all of sqlite_sequence
	// readtags.RecordTouched, 'K': tags of reads, which replicas skip
)

// The parts of a dbaas.ChangeFeed, in the order of the records of the dbaas.ChangeRows before it:
//   - For a Table: Known, or Described and a description. A description has the name of the row id ("" for WITHOUT
//     ROWID); 1 plus the place of the column that is the row id, or 0; the number of columns and their names; the number
//     of the primary key's columns and their places. A key that is the row id has no places.
//   - For a Delete, and for an Update that changes the key: the old values of all columns.
//   - For any other Update: the values of the key's columns, unless they are the identity; then the old values that the
//     record omits.
//   - For an Empty: Emptied, 1 for WITHOUT ROWID, a description, the number of rows; then for each row the row id (none
//     in a table WITHOUT ROWID) and the values of all columns.
const (
	Known     = 0
	Described = 1
	Emptied   = 6 // differs from Known, Described and every kind of value, so that the feed of an older version is detected
)

// ValueOmitted is in the place of an old value that is too long to be compared. It differs from every kind of value.
const ValueOmitted = 5

// ErrMalformed is returned for bytes that are not valid records.
var ErrMalformed = errors.New("malformed record of rows")

// Reader reads records.
type Reader struct{ packed.Reader }

// NewReader returns a Reader of records, or of a feed.
func NewReader(b []byte) Reader { return Reader{packed.Reader{Rest: b}} }

// Value reads a value. known is false for an old value that was omitted. Blobs share the Reader's memory.
func (r *Reader) Value() (v dbaas.Value, known bool) {
	if len(r.Rest) > 0 && r.Rest[0] == ValueOmitted {
		r.Byte()
		return v, false
	}
	return r.Reader.Value(), true
}
