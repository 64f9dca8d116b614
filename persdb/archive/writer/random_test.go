package writer_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/archivetest"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

// history is a random sequence of commits, trims, hours, and processes that archive and die.
type history struct {
	*source

	random  *rand.Rand
	place   *archivetest.Unruly
	a       *writer.Archiver
	tables  int
	trimmed map[dbaas.Seq]dbaas.Seq // up to where the log was trimmed when an entry was committed
}

func (h *history) statement() string {
	n := h.random.IntN(50)
	switch h.random.IntN(10) {
	case 0:
		h.tables++
		return fmt.Sprintf("CREATE TABLE made%d(a, b)", h.tables)
	case 1:
		return fmt.Sprintf("ALTER TABLE keyless ADD c%d DEFAULT %d", h.ops, n)
	case 2:
		return "DELETE FROM keyless"
	case 3:
		return fmt.Sprintf("DELETE FROM t WHERE a%%7=%d", n%7)
	case 4:
		return fmt.Sprintf("UPDATE keyless SET b=%d", n)
	case 5:
		return fmt.Sprintf("INSERT INTO keyless(a, b) VALUES(%d, randomblob(%d))", n, n)
	}
	return fmt.Sprintf("INSERT INTO t(b) VALUES(%d)", n)
}

func (h *history) step(t *testing.T) {
	t.Helper()
	switch h.random.IntN(8) {
	case 0:
		work(t, h.a)
		if got := h.a.Stats().Gaps; got != 0 {
			t.Errorf("got %d gaps, want none: the archive has lost nothing", got)
		}
	case 1: // the process dies, or ends, and the next one begins
		h.place.Set(archivetest.Behaviour{DiesAt: 1 + h.random.IntN(6), DiesAfter: h.random.IntN(2) == 0})
		_ = h.a.Work(t.Context()) // it dies, or there is less to do
		h.place.Set(archivetest.Behaviour{})
		h.a = writer.New(h.Store, writer.Small(config(h.source, h.place)))
	case 2:
		h.advance(time.Duration(h.random.IntN(90)) * time.Minute)
	case 3:
		if _, err := h.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
	default:
		before := h.ArchiveState()
		h.commit(t, h.statement(), h.statement())
		h.trimmed[before.Head+1] = before.Trimmed
	}
}

// After any history, the archive has each young position, with the answers that were stored there, and each object says what
// was committed.
func TestArchiver_AnyHistory(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("RIDESHARE_ARCHIVE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RIDESHARE_ARCHIVE_SEED=%d", seed)
	h := &history{source: newSource(t, commitlog.Archive{Backlog: 1 << 30}), random: rand.New(rand.NewPCG(seed, 0)), trimmed: map[dbaas.Seq]dbaas.Seq{}}
	h.place = &archivetest.Unruly{Place: place.Folder(t.TempDir())}
	h.a = writer.New(h.Store, writer.Small(config(h.source, h.place)))
	work(t, h.a)
	for range 120 {
		h.step(t)
	}
	work(t, h.a)
	c := catalog(t, h.source, h.place)
	head, ranges := h.ArchiveState().Head, c.Ranges()
	if len(ranges) != 1 || ranges[0].Last != head {
		t.Fatalf("got %v, want one range up to %d", ranges, head)
	}
	verify(t, h.source, h.place, ranges...)
	keep := h.Now().Add(-3 * time.Hour)
	for seq := head; seq > 0 && (seq == head || h.entries[seq+1].At.After(keep)); seq-- {
		plan, err := c.Plan(t.Context(), h.place, seq)
		if err != nil || plan.Trimmed > h.trimmed[seq] {
			t.Errorf("position %d: got %v, the log after %d, want the log after %d", seq, err, plan.Trimmed, h.trimmed[seq])
		}
	}
}
