package admission_test

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rideshare/orchestrator/admission"
)

type op struct {
	user string
	n    int
}

func push(f *admission.Fair[op], user string, count, cost int) {
	for n := range count {
		f.Push(&admission.Item[op]{Value: op{user, n}}, user, cost)
	}
}

// serve takes up to count operations and returns their users.
func serve(f *admission.Fair[op], count int) string {
	var users []string
	for ; count > 0; count-- {
		it := f.Next()
		if it == nil {
			break
		}
		f.Take(it)
		users = append(users, it.Value.user)
	}
	return strings.Join(users, " ")
}

// A visit serves 8 statements of a user with weight 1. A message that is full in the middle of a visit does not end it.
func TestFair_Next_RoundRobinByStatements(t *testing.T) {
	for _, message := range []int{100, 1, 5} {
		f := admission.NewFair[op](nil)
		push(f, "A", 6, 4)
		push(f, "B", 6, 1)
		var got []string
		for f.Len() > 0 {
			got = append(got, serve(f, message))
		}
		if got, want := strings.Join(got, " "), "A A B B B B B B A A A A"; got != want {
			t.Errorf("messages of %d: got %s, want %s", message, got, want)
		}
	}
}

// A user with weight 3 has three times as many statements served. An emptied FIFO loses its deficit: A has no more than 8
// statements of its next visit.
func TestFair_Next_WeightsAndEmptiedFIFOs(t *testing.T) {
	f := admission.NewFair[op](map[string]int{"B": 3})
	push(f, "A", 1, 1)
	push(f, "B", 1, 1)
	serve(f, 2)
	push(f, "A", 20, 4)
	push(f, "B", 20, 4)
	if got, want := serve(f, 16), "A A B B B B B B A A B B B B B B"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An operation that costs more than many visits give waits for them, in few steps.
func TestFair_Next_LargeOperation(t *testing.T) {
	const cost = 1 << 40 // visit by visit this would take hours
	f := admission.NewFair[op](nil)
	push(f, "A", 1, cost)
	push(f, "B", 1, cost+8)
	push(f, "C", 1, cost-8)
	if got, want := serve(f, 3), "C A B"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	push(f, "A", 1, 80)
	push(f, "B", 20, 8)
	if got, want := serve(f, 12), "B B B B B B B B B A B B"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A full queue refuses the newest operation of the longest FIFO, or the newcomer if its FIFO is as long.
func TestFair_Displaced_LongestFIFO(t *testing.T) {
	f := admission.NewFair[op](nil)
	push(f, "A", 4, 1)
	if f.Others("A") || !f.Others("B") {
		t.Errorf("got others than A: %t, than B: %t, want only B to see another", f.Others("A"), f.Others("B"))
	}
	for n, newest := range []int{3, 2} {
		it := f.Displaced("B")
		if it == nil || it.Value != (op{"A", newest}) {
			t.Fatalf("B's operation %d: got %+v, want A's operation %d", n, it, newest)
		}
		f.Remove(it)
		push(f, "B", 1, 1)
	}
	if it := f.Displaced("B"); it != nil {
		t.Errorf("B's third operation: got %+v, want the newcomer refused", it.Value)
	}
	if it := f.Displaced("A"); it != nil {
		t.Errorf("A's operation: got %+v, want the newcomer refused", it.Value)
	}
	if it := admission.NewFair[op](nil).Displaced("A"); it != nil {
		t.Errorf("of an empty queue: got %+v", it.Value)
	}
}

// The length of a FIFO counts by weight.
func TestFair_Displaced_ByWeight(t *testing.T) {
	f := admission.NewFair[op](map[string]int{"B": 3})
	push(f, "A", 2, 1)
	push(f, "B", 5, 1)
	if it := f.Displaced("B"); it == nil || it.Value.user != "A" {
		t.Errorf("got %+v, want one of A: 2 is longer than 5/3", it)
	}
	push(f, "B", 1, 1)
	if it := f.Displaced("B"); it != nil {
		t.Errorf("got %+v, want the newcomer refused: 6/3 is as long as 2", it.Value)
	}
}

// Weights that change count for operations that wait, too.
func TestFair_Weigh(t *testing.T) {
	f := admission.NewFair[op](map[string]int{"A": 9})
	push(f, "A", 6, 4)
	push(f, "B", 6, 4)
	f.Weigh(map[string]int{"B": 2})
	if it := f.Displaced("C"); it == nil || it.Value.user != "A" {
		t.Errorf("got %+v, want one of A: 6 is longer than 6/2", it)
	}
	if got := serve(f, 6); got != "A A B B B B" {
		t.Errorf("got %s, want 2 of A and 4 of B in a round", got)
	}
}

// model is Fair in a few slow lines.
type model struct {
	fifos map[string][]*admission.Item[op]
}

func (m *model) drop(it *admission.Item[op]) {
	user := it.Value.user
	for i, other := range m.fifos[user] {
		if other == it {
			m.fifos[user] = append(m.fifos[user][:i:i], m.fifos[user][i+1:]...)
		}
	}
}

// check compares the choice of Displaced, and that Next serves some user's oldest operation.
func (m *model) check(t *rapid.T, f *admission.Fair[op]) {
	longest, sum := 0, 0
	for _, q := range m.fifos {
		longest, sum = max(longest, len(q)), sum+len(q)
	}
	if f.Len() != sum {
		t.Fatalf("got length %d, want %d", f.Len(), sum)
	}
	for user, q := range m.fifos {
		it := f.Displaced(user)
		if (it == nil) != (len(q) == longest) {
			t.Fatalf("a newcomer of %s, who has %d of at most %d: got %+v", user, len(q), longest, it)
		}
		if it != nil {
			if long := m.fifos[it.Value.user]; len(long) != longest || long[len(long)-1] != it {
				t.Fatalf("got displaced %+v, which is not the newest of a longest FIFO", it.Value)
			}
		}
	}
	it := f.Next()
	if (it == nil) != (sum == 0) {
		t.Fatalf("got next %+v with %d waiting", it, sum)
	}
	if it != nil && m.fifos[it.Value.user][0] != it {
		t.Fatalf("got next %+v, which is not the oldest of its user", it.Value)
	}
}

// Whatever comes and goes, each operation is in the queue once, and in the order of its user.
func TestFair_RandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, m, n := admission.NewFair[op](nil), &model{map[string][]*admission.Item[op]{}}, 0
		users := rapid.SampledFrom([]string{"A", "B", "C", "D"})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				user := users.Draw(t, "user")
				it := &admission.Item[op]{Value: op{user, n}}
				n++
				f.Push(it, user, rapid.IntRange(1, 40).Draw(t, "cost"))
				m.fifos[user] = append(m.fifos[user], it)
			},
			"take": func(t *rapid.T) {
				if it := f.Next(); it != nil {
					f.Take(it)
					m.drop(it)
				}
			},
			"remove": func(t *rapid.T) {
				if q := m.fifos[users.Draw(t, "user")]; len(q) > 0 {
					it := q[rapid.IntRange(0, len(q)-1).Draw(t, "which")]
					f.Remove(it)
					m.drop(it)
				}
			},
			"": func(t *rapid.T) { m.check(t, f) },
		})
	})
}

// The FIFOs of users who have nothing waiting are not kept for ever. A user whose FIFO is gone gets a new one.
func TestFair_ManyUsers(t *testing.T) {
	f := admission.NewFair[op](nil)
	for n := range 100 {
		push(f, strconv.Itoa(n), 1, 1)
	}
	push(f, "0", 1, 1)
	serve(f, 101)
	push(f, "0", 2, 1)
	if it := f.Displaced("0"); it != nil || f.Len() != 2 {
		t.Errorf("got %+v displaced of %d, want the newcomer refused: its user is alone", it, f.Len())
	}
}
