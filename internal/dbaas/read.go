package dbaas

import "time"

// Format says how a worker renders the rows of a read.
type Format uint8

const (
	// FormatObjects renders the rows of one statement as
	// [{"column":value},...], the structured form.
	FormatObjects Format = 1
	// FormatArrays renders each statement as {"columns":[..],"types":[..],"values":[[..]]}
	// and joins them with commas, the SQL form.
	FormatArrays Format = 2
	// FormatAssociative renders each statement as {"types":{..},"rows":[{..}]}
	// and joins them with commas, the SQL form with ?associative.
	FormatAssociative Format = 3
)

// Read is one read as a client sent it. Its statements all see the same state.
type Read struct {
	RequestID string
	// User is the user who is charged for the read: the workers are shared fairly among users. User is not sent over
	// the bus.
	User string
	// Deadline is when the caller stops waiting.
	Deadline time.Time
	// MinSeq is the position that the answering worker must have applied.
	MinSeq Seq
	// Recent reads see every write that was acknowledged before the read arrived: the orchestrator raises MinSeq for
	// them. Recent is not sent over the bus.
	Recent bool
	// Linearizable reads go to the master, which confirms its epoch first.
	Linearizable bool
	Format       Format
	// AsQuery says that errors have the form of /db/query, not that of /db/request.
	AsQuery bool
	// StatementTime bounds each statement; zero: no bound but Deadline.
	StatementTime time.Duration
	// QualifyColumns names columns "table.column" in the SQL form.
	QualifyColumns bool
	// Timings adds "time" in seconds to each statement of the SQL form.
	Timings bool
	// BlobArray renders blobs as arrays of numbers instead of base64 text.
	BlobArray bool
	// Cache says what the orchestrator's read cache may do. Cache is not sent over the bus.
	Cache CacheUse
	// WantTags asks the worker for the tags of the answer.
	WantTags   bool
	Statements []Statement
}

// CacheUse says what the read cache may do for a read.
type CacheUse uint8

const (
	// CacheUseful means that the cache may answer, and keep the answer.
	CacheUseful CacheUse = iota
	// CacheRefresh means that the cache may not answer, but may keep the answer.
	CacheRefresh
	// CacheNone means that the read bypasses the cache.
	CacheNone
)

// CacheLevel says where the answer to a read came from.
type CacheLevel string

// The levels.
const (
	LevelOff    CacheLevel = ""       // there is no cache
	LevelHit    CacheLevel = "HIT"    // from the cache
	LevelFlight CacheLevel = "FLIGHT" // shared with another read that asked a worker at the same time
	LevelMiss   CacheLevel = "MISS"   // a worker was asked
	LevelBypass CacheLevel = "BYPASS" // a worker was asked, and the answer cannot be cached
)

// ReadResult is the answer to one read. Body is the JSON as the client gets it,
// rendered once, by the worker.
type ReadResult struct {
	Code    Code
	Message string
	// Seq is the position that the read saw.
	Seq  Seq
	Body []byte
	// Tags are the tags of the answer (internal/readtags), if the read asked for them and the answer can be cached.
	Tags []byte
	// Level is set by the orchestrator.
	Level CacheLevel
}
