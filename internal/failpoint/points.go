package failpoint

// The environment variables of a binary that was built with the tag.
const (
	// EnvArm arms points from the start: NAME=ACTION, separated by commas.
	EnvArm = "RIDESHARE_FAILPOINTS"
	// EnvDir is where each process listens for requests.
	EnvDir = "RIDESHARE_FAILPOINT_DIR"
)

// Point is a line at which something can happen.
type Point string

// The points on the way of a write, in order. An error is possible where it says so.
const (
	// MasterTaken: a message came from writeQ, nothing is done with it yet.
	MasterTaken Point = "master-taken"
	// MasterBeforeCommit: a batch is gathered, persdb not asked. An error means that it was not.
	MasterBeforeCommit Point = "master-before-commit"
	// PersdbBeforeCommit: all is written inside the transaction. An error means that COMMIT failed.
	PersdbBeforeCommit Point = "persdb-before-commit"
	// PersdbAfterCommit: the entry is on disk, nobody knows. An error means that nobody gets to know.
	PersdbAfterCommit Point = "persdb-after-commit"
	// MasterAfterCommit: the master knows; neither slaves nor callers do.
	MasterAfterCommit Point = "master-after-commit"
	// MasterAfterBroadcast: the entry went to syncQ, callers do not know.
	MasterAfterBroadcast Point = "master-after-broadcast"
	// MasterAfterReply: callers know, the message is not acknowledged.
	MasterAfterReply Point = "master-after-reply"
)

// The points of a change of role, in order. None of them can fail.
const (
	// ControlAfterKill: the old worker is dead.
	ControlAfterKill Point = "control-after-kill"
	// ControlAfterClaim: the new epoch exists, nobody has it.
	ControlAfterClaim Point = "control-after-claim"
	// ControlBeforeAssign: a role is about to be given.
	ControlBeforeAssign Point = "control-before-assign"
	// WorkerAssigned: the worker has the role, the orchestrator does not know it.
	WorkerAssigned Point = "worker-assigned"
	// ControlAfterAssign: the orchestrator knows it too.
	ControlAfterAssign Point = "control-after-assign"
	// WorkerEpochTaken: the worker begins its time as master, not caught up yet.
	WorkerEpochTaken Point = "worker-epoch-taken"
	// WorkerBeforeRegister: it is caught up, the coordinator does not know it in this role.
	WorkerBeforeRegister Point = "worker-before-register"
	// WorkerBeforeConsume: it is registered and takes nothing yet.
	WorkerBeforeConsume Point = "worker-before-consume"
)

// Switch is a promise that can be broken.
type Switch string

// The switches.
const (
	// NoEpochCheck: persdb takes commits of every epoch, so that two masters can write.
	NoEpochCheck Switch = "no-epoch-check"
	// NoDeduplication: persdb runs an operation again that it knows.
	NoDeduplication Switch = "no-deduplication"
	// AckBeforeCommit: the master answers and acknowledges before persdb has the write.
	AckBeforeCommit Switch = "ack-before-commit"
	// NoPositionWait: a slave answers a read at once, however old its replica is.
	NoPositionWait Switch = "no-position-wait"
	// NoReadPosition: the master answers linearizable reads without asking persdb how far its replica must be.
	NoReadPosition Switch = "no-read-position"
)

// Action is what an armed point does; see the package.
type Action string

// The actions.
const (
	Kill   Action = "kill"
	Pause  Action = "pause"
	Error  Action = "error"
	Slow   Action = "slow"
	TurnOn Action = "on"
)

// State is what a process tells of a point.
type State struct {
	Action Action `json:"action"` // empty: not armed
	// Hits is how often the point was come to while it was armed.
	Hits int `json:"hits"`
	// Waiting is how many wait at it now.
	Waiting int `json:"waiting"`
}
