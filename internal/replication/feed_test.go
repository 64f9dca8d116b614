package replication

import (
	"slices"
	"testing"

	"rideshare/internal/dbaas"
)

// An entry whose feed is too large, alone or beside its rows, has none, also of the parts before; the next entry has one.
func TestFeed_TooLarge_IsDropped(t *testing.T) {
	rows := dbaas.Change{Kind: dbaas.ChangeRows, Data: []byte("rows")}
	for name, tc := range map[string]struct {
		size     int
		recorded int64
		dropped  bool
	}{
		"small": {10, 0, false}, "at the limit": {maxFeed - 4, 0, false}, "over it": {maxFeed, 0, true}, "beside many rows": {20 << 20, 80 << 20, true},
	} {
		var f feed
		f.begin()
		f.buf = append(f.buf, "part"...)
		changes := f.flush([]dbaas.Change{rows})
		f.buf = make([]byte, tc.size)
		f.check(tc.recorded)
		f.buf = append(f.buf, "more"...)
		changes = f.drop(f.flush(append(changes, rows)))
		if got := slices.ContainsFunc(changes, func(c dbaas.Change) bool { return c.Kind == dbaas.ChangeFeed }); got == tc.dropped || len(changes) < 2 {
			t.Errorf("%s: got %d changes, with feed: %v", name, len(changes), got)
		}
		if f.begin(); f.over {
			t.Errorf("%s: the next entry has no feed", name)
		}
	}
}
