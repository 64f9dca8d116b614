package changes_test

import (
	"testing"
	"testing/synctest"

	"rideshare/internal/testkit/feedtest"
)

// Consumers get a commit that is larger than the window, whole or with their tables only, and what follows it.
func TestFeed_LargeCommit(t *testing.T) {
	for target, first := range map[string]uint64{"?after=0": 1, "?after=0&tables=t": 1, "?after=1": 2, "?after=1&tables=t": 2, "": 3} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPersdb()
				p.commit(1, 0)
				p.commit(1, 3<<20)
				s := open(t, run(t, p, 0), path+target)
				synctest.Wait()
				p.commit(2, 10)
				wantCommits(t, s, first, 4)
			})
		})
	}
}

// The streams at the head send a large commit from one event, and do not read it from the log.
func TestFeed_LargeCommit_IsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		f := run(t, p, 0)
		streams := make([]*feedtest.Stream, 5)
		for i := range streams {
			streams[i] = open(t, f, path)
		}
		synctest.Wait()
		before := p.allReads
		p.commit(1, 3<<20)
		p.commit(1, 0)
		synctest.Wait()
		if p.allReads != before {
			t.Errorf("the streams have read the log %d times", p.allReads-before)
		}
		for _, s := range streams {
			wantCommits(t, s, 1, 2)
		}
	})
}
