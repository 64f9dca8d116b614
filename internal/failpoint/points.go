package failpoint

// The environment variables of a binary that was built with the tag failpoint.
const (
	// EnvArm arms points from the start: NAME=ACTION, separated by commas.
	EnvArm = "RIDESHARE_FAILPOINTS"
	// EnvDir is where each process listens for requests.
	EnvDir = "RIDESHARE_FAILPOINT_DIR"
)

// Point is a place in the code where an action can be injected.
type Point string

// The points along a write, in order. An error is possible only where the comment says so.
const (
	// MasterTaken: a message was received from writeQ and not processed yet.
	MasterTaken Point = "master-taken"
	// MasterBeforeCommit: a batch is collected and not sent to persdb. An error means that persdb was not called.
	MasterBeforeCommit Point = "master-before-commit"
	// PersdbBeforeCommit: all rows are written inside the transaction. An error means that the entry was not appended.
	PersdbBeforeCommit Point = "persdb-before-commit"
	// PersdbBeforeTables: the entry is in the log, and so committed; the tables' transaction is still open. An error means
	// that its COMMIT failed.
	PersdbBeforeTables Point = "persdb-before-tables"
	// PersdbAfterCommit: the entry is on disk, and the answer not sent. An error means that no answer is sent.
	PersdbAfterCommit Point = "persdb-after-commit"
	// MasterAfterCommit: the master has persdb's answer, and has sent nothing to slaves and callers yet.
	MasterAfterCommit Point = "master-after-commit"
	// MasterAfterBroadcast: the entry was sent to syncQ; callers have no answer yet.
	MasterAfterBroadcast Point = "master-after-broadcast"
	// MasterAfterReply: callers have their answers; the message is not acknowledged.
	MasterAfterReply Point = "master-after-reply"
)

// The points along a read. None of them can fail.
const (
	// SlaveBeforeRead: reads have a slot, and the replica has not been opened for them.
	SlaveBeforeRead Point = "slave-before-read"
)

// The points of the maintenance of the archive. None of them can fail.
const (
	// ArchiveMerging: a part of a merged segment is written.
	ArchiveMerging Point = "archive-merging"
	// ArchiveMerged: a merged segment is in the archive, and so are the segments that it replaces.
	ArchiveMerged Point = "archive-merged"
	// ArchiveRemoved: an object that is no longer needed was removed; others may be left.
	ArchiveRemoved Point = "archive-removed"
)

// The points of a change of role, in order. None of them can fail.
const (
	// ControlAfterKill: the old worker is dead.
	ControlAfterKill Point = "control-after-kill"
	// ControlAfterClaim: the new epoch exists and is not assigned.
	ControlAfterClaim Point = "control-after-claim"
	// ControlBeforeAssign: a role is about to be assigned.
	ControlBeforeAssign Point = "control-before-assign"
	// WorkerAssigned: the worker has the role; the orchestrator has no answer yet.
	WorkerAssigned Point = "worker-assigned"
	// ControlAfterAssign: the orchestrator has the worker's answer.
	ControlAfterAssign Point = "control-after-assign"
	// WorkerEpochTaken: the worker begins its epoch as master and is not caught up yet.
	WorkerEpochTaken Point = "worker-epoch-taken"
	// WorkerBeforeRegister: the worker is caught up and not yet registered at the coordinator in this role.
	WorkerBeforeRegister Point = "worker-before-register"
	// WorkerBeforeConsume: the worker is registered and consumes nothing yet.
	WorkerBeforeConsume Point = "worker-before-consume"
)

// Switch is a promise that can be broken.
type Switch string

// The switches.
const (
	// NoEpochCheck: persdb accepts commits of every epoch, so that two masters can write.
	NoEpochCheck Switch = "no-epoch-check"
	// NoDeduplication: persdb reruns an operation that it has already run.
	NoDeduplication Switch = "no-deduplication"
	// AckBeforeCommit: the master answers and acknowledges a write before persdb has committed it.
	AckBeforeCommit Switch = "ack-before-commit"
	// NoPositionWait: a slave answers a read immediately, however old its replica is.
	NoPositionWait Switch = "no-position-wait"
	// NoReadPosition: the master answers linearizable reads without asking persdb for the position that its replica must
	// have.
	NoReadPosition Switch = "no-read-position"
)

// Action is what an armed point does; see the package documentation.
type Action string

// The actions.
const (
	Kill   Action = "kill"
	Pause  Action = "pause"
	Spin   Action = "spin"
	Error  Action = "error"
	Slow   Action = "slow"
	TurnOn Action = "on"
)

// State is the state of a point in a process.
type State struct {
	Action Action `json:"action"` // empty: not armed
	// Hits is how often the point was reached while it was armed.
	Hits int `json:"hits"`
	// Waiting is how many goroutines wait at it now.
	Waiting int `json:"waiting"`
}
