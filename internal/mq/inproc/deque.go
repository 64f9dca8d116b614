package inproc

// deque is a double-ended queue in a ring buffer. Its zero value is empty.
type deque[T any] struct {
	ring  []T
	first int
	n     int
}

func (d *deque[T]) len() int { return d.n }

func (d *deque[T]) at(i int) T { return d.ring[(d.first+i)%len(d.ring)] }

func (d *deque[T]) pushBack(v T) {
	d.grow()
	d.ring[(d.first+d.n)%len(d.ring)] = v
	d.n++
}

func (d *deque[T]) pushFront(v T) {
	d.grow()
	d.first = (d.first - 1 + len(d.ring)) % len(d.ring)
	d.ring[d.first] = v
	d.n++
}

// popFront removes and returns the first element; the deque must not be empty. It clears the slot, so that a deque
// that was once long does not keep its messages alive.
func (d *deque[T]) popFront() T {
	var zero T
	v := d.ring[d.first]
	d.ring[d.first] = zero
	d.first = (d.first + 1) % len(d.ring)
	d.n--
	return v
}

func (d *deque[T]) clear() { *d = deque[T]{} }

// grow makes room for one more element.
func (d *deque[T]) grow() {
	if d.n < len(d.ring) {
		return
	}
	ring := make([]T, max(16, 2*len(d.ring)))
	for i := range d.n {
		ring[i] = d.at(i)
	}
	d.ring, d.first = ring, 0
}
