package changes_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/feedtest"
)

// A 410 names an oldest_seq from which reading works, also if the commits there are damaged or of an older version.
func TestFeed_Gone_OldestIsReadable(t *testing.T) {
	for name, tc := range map[string]struct {
		after         int
		damaged, past []dbaas.Seq // past: commits of an older version
		oldest        dbaas.Seq
	}{
		"trimmed":                            {after: 0, oldest: 5},
		"the oldest is damaged":              {after: 0, damaged: []dbaas.Seq{5}, oldest: 6},
		"the oldest are of an older version": {after: 1, past: []dbaas.Seq{5, 6, 7}, damaged: []dbaas.Seq{8}, oldest: 9},
		"the next is damaged":                {after: 6, damaged: []dbaas.Seq{7, 8}, oldest: 9},
		"the next is of an older version":    {after: 4, past: []dbaas.Seq{5, 8}, damaged: []dbaas.Seq{6}, oldest: 7},
		"after the head":                     {after: 99, damaged: []dbaas.Seq{5}, oldest: 6},
		"none can be read":                   {after: 4, past: []dbaas.Seq{5, 6, 7, 8, 9}, damaged: []dbaas.Seq{10}, oldest: 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPersdb()
				p.first, p.damaged = 5, map[dbaas.Seq]bool{}
				p.commit(6, 10)
				for _, seq := range tc.damaged {
					p.damaged[seq] = true
				}
				for _, seq := range tc.past {
					p.entries[seq-5].Changes[0].Kind = dbaas.ChangeSet
				}
				f := run(t, p, 0)
				s := feedtest.Open(t.Context(), f, fmt.Sprintf("%s?after=%d", path, tc.after))
				var got struct {
					Oldest dbaas.Seq `json:"oldest_seq"`
				}
				if err := json.Unmarshal([]byte(s.Body), &got); err != nil || s.Status != 410 || got.Oldest != tc.oldest {
					t.Fatalf("got %d %s, %v, want 410 with oldest_seq %d", s.Status, s.Body, err, tc.oldest)
				}
				resumed := feedtest.Open(t.Context(), f, fmt.Sprintf("%s?after=%d", path, tc.oldest-1))
				defer resumed.Close()
				if resumed.Status != 200 {
					t.Fatalf("read on from there: got %d %s, want 200", resumed.Status, resumed.Body)
				}
				p.commit(1, 10)
				e, err := resumed.Next()
				if c, wrong := e.Commit(); err != nil || wrong != nil || c.Seq != uint64(tc.oldest) {
					t.Errorf("got %+v, %v, %v, want commit %d", e, err, wrong, tc.oldest)
				}
			})
		})
	}
}
