package users

// Occupy takes all slots, as long as the returned function is not called.
func (h *Hasher) Occupy() (release func()) {
	for range cap(h.slots) {
		h.slots <- struct{}{}
	}
	return func() {
		for range cap(h.slots) {
			<-h.slots
		}
	}
}
