package db

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// silence is how long the feed may be quiet. The database sends its position after 10 s without a commit.
const silence = 30 * time.Second

// Event is one commit, or, without changes, only a position.
type Event struct {
	Cluster string
	Seq     uint64
	Changes []Change
}

// Position is where the feed continues after this event.
func (e Event) Position() string { return e.Cluster + ":" + strconv.FormatUint(e.Seq, 10) }

// Change is one changed row: insert, update or delete. A schema change has only SQL. Numbers are json.Number.
type Change struct {
	Op, Table, SQL     string
	Key, Before, After map[string]any
}

// Changes calls each with every commit after a position, in order and without a gap. tables are the names of tables, with
// commas between them. The first event has only the position at which the feed begins.
//
// Changes returns when ctx ends, when each fails, or when the connection is lost. To continue, call it again with the
// position of the last event. A *Refusal with status 410 says that the commits after the position are gone. Then query
// the tables, and continue after the position of that answer.
func (c *Client) Changes(ctx context.Context, after, tables string, each func(Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errors.New("the change feed is silent")) })
	defer alarm.Stop()
	query := url.Values{"after": {after}, "tables": {tables}}
	resp, err := c.send(ctx, "/api/v1/changes?"+query.Encode(), nil, http.Header{"Accept": {"application/x-ndjson"}})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()                        // It was only read.
	start, _ := strconv.ParseUint(resp.Header.Get("X-Seq"), 10, 64) // The database sends a number.
	events := json.NewDecoder(resp.Body)
	events.UseNumber()
	e := Event{Cluster: resp.Header.Get("X-Cluster-Id"), Seq: start}
	for {
		if err = each(e); err != nil {
			return err
		}
		e = Event{}
		if err = events.Decode(&e); err != nil { // An event that was cut off comes again.
			return cmp.Or(context.Cause(ctx), fmt.Errorf("the change feed ended: %w", err))
		}
		alarm.Reset(silence)
	}
}
