package invariants

import (
	"context"
	"fmt"

	"rideshare/internal/dbaas"
)

// Log checks persdb's log, from the first untrimmed entry to the head at the start of the check: no entry is missing or
// damaged, and epochs never decrease.
func Log(ctx context.Context, store LogStore) []Invariant {
	w := walk{}
	if err := w.read(ctx, store); err != nil {
		why := fmt.Sprintf("log not read beyond entry %d: %s", w.at.Seq, reason(err))
		return []Invariant{judged(LogDense, "", append(w.holes, why)), w.intact(why), judged(EpochsOrdered, "", append(w.falls, why))}
	}
	seen := fmt.Sprintf("entries %d to %d", w.trimmed+1, w.at.Seq)
	if w.at.Seq == w.trimmed {
		seen = fmt.Sprintf("no entries, head %d", w.at.Seq)
	}
	return []Invariant{judged(LogDense, seen, w.holes), w.intact(), judged(EpochsOrdered, fmt.Sprintf("epoch %d at the end", w.at.Epoch), w.falls)}
}

// maxTold bounds how many holes are reported individually.
const maxTold = 10

// walk is the state of a pass along the log.
type walk struct {
	trimmed dbaas.Seq  // position before the first entry
	at      dbaas.Head // the last entry seen
	holes   []string
	falls   []string
	damaged []string
}

// intact returns the invariant for the entries' bytes; why is the reason if they could not be read.
func (w *walk) intact(why ...string) Invariant {
	if n := len(w.damaged); n > 0 {
		w.damaged[n-1] += ": bytes changed on persdb's disk; replicas take a snapshot there, writes of such an entry that come again are refused, until it is trimmed"
	}
	return judged(LogIntact, "every entry is as it was written", append(w.damaged, why...))
}

func (w *walk) read(ctx context.Context, store LogStore) error {
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	for w.at.Seq < head.Seq {
		page, err := store.Log(ctx, w.at.Seq, 0)
		if dbaas.CodeOf(err) == dbaas.CodeGone {
			if err = w.gone(ctx, store, page.First, head.Seq); err != nil {
				return err
			}
			continue
		}
		if dbaas.CodeOf(err) == dbaas.CodeDamaged {
			w.at.Seq++
			w.note(&w.damaged, fmt.Sprintf("entry %d is damaged", w.at.Seq))
			continue
		}
		if err != nil {
			return err
		}
		w.entries(page.Entries)
		if len(page.Entries) == 0 {
			w.hole(head.Seq + 1)
			w.at.Seq = head.Seq
		}
	}
	if w.at.Epoch > head.Epoch && w.at.Seq <= head.Seq {
		w.falls = append(w.falls, fmt.Sprintf("entry %d has epoch %d, which was never given out: the newest is %d", w.at.Seq, w.at.Epoch, head.Epoch))
	}
	return nil
}

// gone continues at first, where the log says that it begins. Only the oldest entries can be trimmed, so a missing entry
// with older entries before it is a hole. So is an entry that the log says it keeps and does not return.
func (w *walk) gone(ctx context.Context, store LogStore, first, head dbaas.Seq) error {
	if first <= w.at.Seq+1 {
		w.hole(head + 1)
		w.at.Seq = head
		return nil
	}
	to := min(first-1, head)
	if w.at.Seq == w.trimmed { // no entry has been seen yet.
		w.trimmed, w.at.Seq = to, to
		return nil
	}
	_, err := store.Log(ctx, w.trimmed, 0)
	switch code := dbaas.CodeOf(err); {
	case err == nil, code == dbaas.CodeDamaged:
		w.hole(to + 1)
	case code != dbaas.CodeGone:
		return err
	}
	w.at.Seq = to
	return nil
}

// entries checks the entries of one page.
func (w *walk) entries(page []dbaas.Entry) {
	for _, e := range page {
		switch {
		case e.Seq > w.at.Seq+1:
			w.hole(e.Seq)
		case e.Seq <= w.at.Seq:
			w.note(&w.holes, fmt.Sprintf("entry %d comes after entry %d", e.Seq, w.at.Seq))
		}
		if e.Epoch < w.at.Epoch {
			w.note(&w.falls, fmt.Sprintf("entry %d has epoch %d, after epoch %d", e.Seq, e.Epoch, w.at.Epoch))
		}
		w.at = dbaas.Head{Seq: max(w.at.Seq, e.Seq), Epoch: max(w.at.Epoch, e.Epoch)}
	}
}

// hole records that the entries between the last one and next are missing.
func (w *walk) hole(next dbaas.Seq) {
	if next == w.at.Seq+2 {
		w.note(&w.holes, fmt.Sprintf("entry %d is missing", w.at.Seq+1))
		return
	}
	w.note(&w.holes, fmt.Sprintf("entries %d to %d are missing", w.at.Seq+1, next-1))
}

func (w *walk) note(list *[]string, what string) {
	switch n := len(*list); {
	case n < maxTold:
		*list = append(*list, what)
	case n == maxTold:
		*list = append(*list, "and more")
	}
}
