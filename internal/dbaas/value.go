package dbaas

// ValueKind is the storage class of a Value.
type ValueKind uint8

// The storage classes of SQLite.
const (
	KindNull    ValueKind = 0
	KindInteger ValueKind = 1
	KindFloat   ValueKind = 2
	KindText    ValueKind = 3
	KindBlob    ValueKind = 4
)

// Value is one SQL value. Only the field that belongs to Kind has a meaning.
// The zero Value is NULL.
type Value struct {
	Kind  ValueKind
	Int   int64
	Float float64
	Text  string
	Blob  []byte
}

// Null returns the SQL value NULL.
func Null() Value { return Value{} }

// Integer returns v as an SQL value.
func Integer(v int64) Value { return Value{Kind: KindInteger, Int: v} }

// Float returns v as an SQL value.
func Float(v float64) Value { return Value{Kind: KindFloat, Float: v} }

// Text returns v as an SQL value.
func Text(v string) Value { return Value{Kind: KindText, Text: v} }

// Blob returns v as an SQL value. The slice is kept, not copied.
func Blob(v []byte) Value { return Value{Kind: KindBlob, Blob: v} }
