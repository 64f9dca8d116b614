package inproc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A deque does what a slice does, whatever happens to both ends.
func TestDeque_ActsAsSlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d deque[int]
		var model []int
		for step := range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				d.pushBack(step)
				model = append(model, step)
			case 2:
				d.pushFront(step)
				model = slices.Insert(model, 0, step)
			case 3:
				if len(model) == 0 {
					continue
				}
				if got := d.popFront(); got != model[0] {
					t.Fatalf("popFront: got %d, want %d", got, model[0])
				}
				model = model[1:]
			}
			if d.len() != len(model) {
				t.Fatalf("len: got %d, want %d", d.len(), len(model))
			}
			for i, want := range model {
				if got := d.at(i); got != want {
					t.Fatalf("at %d: got %d, want %d", i, got, want)
				}
			}
		}
	})
}
