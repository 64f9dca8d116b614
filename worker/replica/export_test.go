package replica

// EndReaders stops the open readers, as if the WAL had grown too large.
func (r *Replica) EndReaders() {
	r.mu.Lock()
	f := r.file
	r.mu.Unlock()
	f.end(-1)
}
