package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// model is registers and sets, each of which is checked by itself. The state is a
// string: a register's value, or a set's members, each followed by a comma.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() any { return "" },
		Step: func(state, in, out any) (bool, any) {
			return step(state.(string), in.(Call), out.(output))
		},
		DescribeOperation: func(in, out any) string { return describe(in.(Call), out.(output)) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%q", state) },
	}
}

// step reports whether a call can have that answer in a state, and the state after it.
func step(state string, c Call, out output) (bool, string) {
	switch c.Kind {
	case Read:
		return out.Value == state, state
	case Write:
		return true, c.Value
	case Swap:
		found := state == c.Old
		if !out.unknown && out.Done != found {
			return false, state
		}
		if found {
			return true, c.Value
		}
		return true, state
	case Members:
		return joined(out.Members) == state, state
	case Add:
		members := append(strings.FieldsFunc(state, isComma), c.Value)
		slices.Sort(members)
		return true, joined(members)
	default:
		return false, state
	}
}

func isComma(r rune) bool { return r == ',' }

func joined(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return strings.Join(members, ",") + ","
}

// partition splits a history by key.
func partition(all []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range all {
		key := op.Input.(Call).Key
		parts[key] = append(parts[key], op)
	}
	out := make([][]porcupine.Operation, 0, len(parts))
	for _, part := range parts {
		out = append(out, part)
	}
	slices.SortFunc(out, func(a, b []porcupine.Operation) int {
		return cmp.Compare(a[0].Input.(Call).Key, b[0].Input.(Call).Key)
	})
	return out
}

func describe(c Call, out output) string {
	what := fmt.Sprintf("%s %s", c.Kind, c.Key)
	switch c.Kind {
	case Write, Add:
		what += " " + c.Value
	case Swap:
		what += fmt.Sprintf(" %s for %s: %v", c.Value, c.Old, out.Done)
	case Read:
		what += ": " + out.Value
	case Members:
		what += ": " + joined(out.Members)
	}
	if out.unknown {
		what += " (unknown)"
	}
	return what
}
