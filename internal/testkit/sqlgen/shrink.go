package sqlgen

import "slices"

// maxTries bounds how many smaller scripts Shrink tries.
const maxTries = 600

// Shrink returns a smaller script that still fails. It removes batches, then operations, then statements and actions, as
// long as anything can be removed.
func Shrink(s Script, fails func(Script) bool) Script {
	tries := 0
	try := func(smaller Script) bool {
		if tries >= maxTries || smaller.operations() == 0 {
			return false
		}
		tries++
		if !fails(smaller) {
			return false
		}
		s = smaller
		return true
	}
	for progress := true; progress && tries < maxTries; {
		progress = false
		for i := range slices.Backward(s.Batches) { // a batch is only removed at i
			smaller := s
			smaller.Batches = without(s.Batches, i)
			if try(smaller) || shrinkBatch(&s, i, try) {
				progress = true
			}
		}
	}
	return s
}

// shrinkBatch makes batch i smaller and reports whether it succeeded.
func shrinkBatch(s *Script, i int, try func(Script) bool) bool {
	progress := false
	for k := len(s.Batches[i].Operations) - 1; k >= 0; k-- {
		if try(s.edit(i, func(b *Batch) { b.Operations = without(b.Operations, k) })) {
			progress = true
			continue
		}
		for n := len(s.Batches[i].Operations[k].Statements) - 1; n >= 0 && len(s.Batches[i].Operations[k].Statements) > 1; n-- {
			progress = try(s.edit(i, func(b *Batch) { b.Operations[k].Statements = without(b.Operations[k].Statements, n) })) || progress
		}
		if s.Batches[i].Operations[k].Atomic {
			progress = try(s.edit(i, func(b *Batch) { b.Operations[k].Atomic = false })) || progress
		}
	}
	if s.Batches[i].Then != Nothing {
		progress = try(s.edit(i, func(b *Batch) { b.Then = Nothing })) || progress
	}
	return progress
}

// edit returns a copy of the script with batch i changed.
func (s *Script) edit(i int, change func(b *Batch)) Script {
	out := *s
	out.Batches = append([]Batch(nil), s.Batches...)
	out.Batches[i].Operations = append([]Operation(nil), s.Batches[i].Operations...)
	change(&out.Batches[i])
	return out
}

// without returns a copy of list without element i.
func without[T any](list []T, i int) []T {
	return append(append([]T(nil), list[:i]...), list[i+1:]...)
}
