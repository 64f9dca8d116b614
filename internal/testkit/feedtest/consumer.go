package feedtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/rowlog"
)

// Consumer is the state that a consumer of the change feed keeps when it dies. It ignores events that it has already seen.
type Consumer struct {
	Tables []string  // in lower case; nil for all
	Last   string    // the id of the last event
	Seen   dbaas.Seq // the consumer has every change of Tables up to here

	got map[dbaas.Seq]string // the data of each commit
}

// Take stores a new event. An event that the consumer has already seen must have the same data again.
func (c *Consumer) Take(e Event) error {
	var at struct{ Seq dbaas.Seq }
	if err := json.Unmarshal([]byte(e.Data), &at); err != nil {
		return fmt.Errorf("event %s: %w", e.ID, err)
	}
	c.Last = e.ID
	if e.Type == "commit" {
		if old, again := c.got[at.Seq]; again && old != e.Data {
			return fmt.Errorf("commit %d comes again: got %q, then %q", at.Seq, old, e.Data)
		}
		if c.got == nil {
			c.got = map[dbaas.Seq]string{}
		}
		if at.Seq > c.Seen {
			c.got[at.Seq] = e.Data
		}
	}
	c.Seen = max(c.Seen, at.Seq)
	return nil
}

// Log is persdb's log with the parts of the feed.
type Log interface {
	Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, limit int) (dbaas.Page, error)
}

// Check compares what the consumer has with the log up to head: every change exactly once.
func (c *Consumer) Check(ctx context.Context, log Log, head dbaas.Seq) error {
	wanted := 0
	for after := dbaas.Seq(0); after < head; {
		page, err := log.Changes(ctx, after, 0, 4<<20)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			event, err := rowlog.NewEvent(&page.Entries[i])
			if err != nil {
				return err
			}
			after = event.Seq
			text := ""
			if event.Matches(c.Tables) {
				wanted++
				text = string(slices.Concat(slices.Collect(event.Pieces(c.Tables))...))
			}
			if c.got[after] != text {
				return fmt.Errorf("commit %d: got %q, want %q", after, c.got[after], text)
			}
			if after == head {
				break
			}
		}
	}
	if len(c.got) != wanted {
		return fmt.Errorf("got %d commits, the log has %d", len(c.got), wanted)
	}
	return nil
}
