package dbaas

// Seen is the state of the cluster on which a caller based a destructive request. The request is refused if that state
// has passed. A zero field is not compared.
type Seen struct {
	// Worker is the worker that the caller expects the request to affect.
	Worker WorkerID
	// Epoch is the epoch of the master that the caller saw.
	Epoch Epoch
}

// CheckEpoch returns CodeConflict if now, the epoch of the current master, differs from the epoch that the caller saw.
func (s Seen) CheckEpoch(now Epoch) error {
	if s.Epoch != 0 && s.Epoch != now {
		return Errorf(CodeConflict, "the master's epoch is not %d any more: look at the cluster again", s.Epoch)
	}
	return nil
}
