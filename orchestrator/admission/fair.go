package admission

import "container/heap"

// quantum is what a visit adds to the deficit of a FIFO of weight 1, in statements.
const quantum = 8

// maxIdle: while there are at most this many FIFOs, an empty one is kept for its user's next operation.
const maxIdle = 64

// Fair is a queue with a FIFO per user. Next serves the FIFOs by deficit round robin (Shreedhar and Varghese, 1995):
// users get statements served in proportion to their weights, however large their operations are. A Fair is not safe
// for concurrent use.
type Fair[T any] struct {
	weights map[string]int
	fifos   map[string]*fifo[T]
	recent  *fifo[T]    // the FIFO that Push used last; it may be empty
	turn    *fifo[T]    // in a ring of all FIFOs that have an operation; nil if there is none
	longest byLength[T] // the same FIFOs
	n       int
}

// Item is one operation in a Fair. The zero Item is in no queue. An Item that has left the queue can be pushed again.
type Item[T any] struct {
	Value      T
	cost       int
	fifo       *fifo[T] // nil if the Item is in no queue
	prev, next *Item[T]
}

// Queued reports whether the Item is in a queue.
func (it *Item[T]) Queued() bool { return it.fifo != nil }

// fifo has the waiting operations of one user.
type fifo[T any] struct {
	user        string
	weight      int
	first, last *Item[T]
	n           int
	deficit     int  // how many statements the user may send now
	visited     bool // the present visit has added to deficit
	prev, next  *fifo[T]
	place       int // in longest
}

// NewFair returns an empty queue. weights has the users whose weight is not 1.
func NewFair[T any](weights map[string]int) *Fair[T] {
	return &Fair[T]{weights: weights, fifos: map[string]*fifo[T]{}}
}

// Weigh replaces the weights of all users, including those with waiting operations.
func (f *Fair[T]) Weigh(weights map[string]int) {
	f.weights = weights
	for user, q := range f.fifos {
		q.weight = max(1, weights[user])
	}
	heap.Init(&f.longest)
}

// Len returns how many operations are in the queue.
func (f *Fair[T]) Len() int { return f.n }

// Push adds an operation of cost statements at the end of its user's FIFO.
func (f *Fair[T]) Push(it *Item[T], user string, cost int) {
	q := f.of(user)
	it.fifo, it.cost, it.prev, it.next = q, cost, q.last, nil
	if q.last == nil {
		q.first = it
	} else {
		q.last.next = it
	}
	q.last = it
	q.n++
	f.n++
	if q.n == 1 {
		f.join(q)
		return
	}
	f.resized(q)
}

func (f *Fair[T]) of(user string) *fifo[T] {
	if f.recent != nil && f.recent.user == user {
		return f.recent
	}
	q := f.fifos[user]
	if q == nil {
		q = &fifo[T]{user: user, weight: max(1, f.weights[user])}
		f.fifos[user] = q
	}
	f.recent = q
	return q
}

// join makes q the last in the ring.
func (f *Fair[T]) join(q *fifo[T]) {
	if f.turn == nil {
		q.prev, q.next, f.turn = q, q, q
	} else {
		q.prev, q.next = f.turn.prev, f.turn
		q.prev.next, q.next.prev = q, q
	}
	if len(f.longest) == 0 { // a user who is alone needs no heap
		q.place, f.longest = 0, append(f.longest, q)
		return
	}
	heap.Push(&f.longest, q)
}

// resized keeps longest in order after q has become longer or shorter.
func (f *Fair[T]) resized(q *fifo[T]) {
	if len(f.longest) > 1 {
		heap.Fix(&f.longest, q.place)
	}
}

// Next returns the operation to serve next, or nil if the queue is empty. The operation stays in the queue until Take
// or Remove.
func (f *Fair[T]) Next() *Item[T] {
	for passed := 0; f.turn != nil; f.turn = f.turn.next {
		q := f.turn
		if !q.visited {
			q.visited = true
			q.deficit += quantum * q.weight
		}
		if q.first.cost <= q.deficit {
			return q.first
		}
		q.visited = false
		if passed++; passed == len(f.longest) {
			passed = 0
			f.skipRounds()
		}
	}
	return nil
}

// skipRounds advances all deficits to the next round in which an operation can be served. Going there round by round
// would take long: an operation may cost a million statements.
func (f *Fair[T]) skipRounds() {
	rounds := -1
	for _, q := range f.longest {
		more := (q.first.cost - q.deficit - 1) / (quantum * q.weight)
		if rounds < 0 || more < rounds {
			rounds = more
		}
	}
	for _, q := range f.longest {
		q.deficit += rounds * quantum * q.weight
	}
}

// Take removes the operation that Next returned and charges its cost to the user.
func (f *Fair[T]) Take(it *Item[T]) {
	it.fifo.deficit -= it.cost
	f.Remove(it)
}

// Remove removes an operation without charging its cost.
func (f *Fair[T]) Remove(it *Item[T]) {
	q := it.fifo
	if it.prev == nil {
		q.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		q.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.fifo, it.prev, it.next = nil, nil, nil
	q.n--
	f.n--
	if q.n == 0 {
		f.leave(q)
		return
	}
	f.resized(q)
}

// leave removes an emptied FIFO from the ring.
func (f *Fair[T]) leave(q *fifo[T]) {
	if f.turn == q {
		f.turn = q.next
	}
	if len(f.longest) == 1 {
		f.turn, f.longest[0], f.longest = nil, nil, f.longest[:0]
	} else {
		heap.Remove(&f.longest, q.place)
	}
	q.prev.next, q.next.prev = q.next, q.prev
	q.prev, q.next = nil, nil
	q.deficit, q.visited = 0, false
	if len(f.fifos) > maxIdle {
		delete(f.fifos, q.user)
		f.recent = nil
	}
}

// Displaced returns the operation that makes room for a newcomer of user in a full queue: the newest operation of the
// longest FIFO, by length / weight. It returns nil if the newcomer must be refused, because no FIFO is longer than that
// of user.
func (f *Fair[T]) Displaced(user string) *Item[T] {
	if f.n == 0 {
		return nil
	}
	long := f.longest[0]
	if q := f.fifos[user]; q != nil && q.n*long.weight >= long.n*q.weight {
		return nil
	}
	return long.last
}

// Others reports whether operations of users other than user are in the queue.
func (f *Fair[T]) Others(user string) bool {
	return len(f.longest) > 1 || f.turn != nil && f.turn.user != user
}

// byLength is a heap with the longest FIFO first.
type byLength[T any] []*fifo[T]

func (h byLength[T]) Len() int           { return len(h) }
func (h byLength[T]) Less(i, j int) bool { return h[i].n*h[j].weight > h[j].n*h[i].weight }

func (h byLength[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *byLength[T]) Push(x any) {
	q := x.(*fifo[T]) //nolint:forcetypeassert // heap.Push passes on what join gave it.
	q.place = len(*h)
	*h = append(*h, q)
}

// Pop implements heap.Interface.
func (h *byLength[T]) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return q
}
