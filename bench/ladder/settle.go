package ladder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// markKey is the row whose value shows whether a replica has caught up, where replicas do not report it. markGroup
	// is its group.
	markKey   = "mark"
	markGroup = -2
	// writtenGroup is the group of the rows written by the measurements. Their keys begin with w and a hexadecimal
	// digit.
	writtenGroup = -1
)

var (
	errRowsLeft = errors.New("rows that were written are still there")
	errBehind   = errors.New("replicas have not caught up")
)

// reconcile makes all paths ready for a measurement: the tables have exactly the rows that they were filled with, every
// replica has caught up, and read caches are empty. So no measurement is slowed down by the leftovers of an earlier one.
func (s *rig) reconcile(ctx context.Context) error {
	for name, t := range s.targets {
		if name == pathHTTP {
			continue
		}
		if err := t.settle(ctx); err != nil {
			return fmt.Errorf("settle %s: %w", name, err)
		}
	}
	return nil
}

func (t *target) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if t.touched {
		if err := t.empty(ctx); err != nil {
			return err
		}
		t.touched = false
	}
	if t.nodes > 0 {
		return t.followLeader(ctx)
	}
	if t.product && !t.uncached {
		if _, err := ask(ctx, http.MethodDelete, t.addresses.Database+"/api/v1/cache", nil); err != nil {
			return err
		}
	}
	_, err := t.caughtUp(ctx)
	return err
}

// caughtUp waits until no replica is behind, and returns the lag that it saw last.
func (t *target) caughtUp(ctx context.Context) (lag uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err = poll(ctx, startPoll, errBehind, func() (bool, error) {
		lag, err = t.lag(ctx)
		return lag == 0, err
	})
	return lag, err
}

// empty removes the written rows, in chunks that any path accepts, and checks that they are gone.
func (t *target) empty(ctx context.Context) error {
	for _, digit := range []byte("0123456789abcdef") {
		piece := []any{"DELETE FROM bench WHERE k >= ? AND k < ?", "w" + string(digit), "w" + string(digit+1)}
		if err := execute(ctx, t.addresses.Database, []any{piece}); err != nil {
			return err
		}
	}
	left, err := t.written(ctx)
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: %d", errRowsLeft, left)
	}
	return err
}

// written returns how many rows of the measurements are there, after all writes that were answered.
func (t *target) written(ctx context.Context) (int64, error) {
	if !t.product && !t.sql {
		if err := t.mark(ctx); err != nil {
			return 0, err
		}
		rows, err := t.read(ctx, "k", map[string]any{"g": writtenGroup})
		return int64(bytes.Count(rows, []byte(`"k":`))), err
	}
	text, err := askSQL(ctx, t.addresses.Database+"/db/query?level=linearizable", []string{fmt.Sprintf("SELECT count(*) FROM bench WHERE g = %d", writtenGroup)})
	if err != nil {
		return 0, err
	}
	var answer struct {
		Results [1]struct {
			Values [1][1]int64 `json:"values"`
		} `json:"results"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("count the rows: %w", err)
	}
	return answer.Results[0].Values[0][0], nil
}

// checkWritten makes a measurement wrong if fewer of its rows are there than writes were answered 200. More may be there: a
// write without an answer may have been done.
func (t *target) checkWritten(ctx context.Context, f *figure) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	there, err := t.written(ctx)
	if lost := f.written - there; err == nil && lost > 0 {
		f.errors += lost
		f.wrong = cmp.Or(f.wrong, fmt.Errorf("%d of %d rows of writes that were answered 200 are missing", lost, f.written))
	}
	return err
}

// mark writes a row and waits until reads see it. Then they also see everything written before it. A replica that is
// behind may not even have the table yet.
func (t *target) mark(ctx context.Context) error {
	t.marks++
	mark := strconv.Itoa(t.marks)
	if err := execute(ctx, t.addresses.Database, []any{[]any{"INSERT OR REPLACE INTO bench (k, g, v) VALUES (?, ?, ?)", markKey, markGroup, mark}}); err != nil {
		return err
	}
	var refused error
	err := poll(ctx, startPoll, errBehind, func() (bool, error) {
		var got []byte
		got, refused = t.read(ctx, "v", map[string]any{"k": markKey})
		return bytes.Equal(got, fmt.Appendf(nil, `[{"v":%q}]`, mark)), nil
	})
	if err != nil {
		return errors.Join(err, refused)
	}
	return nil
}

// read returns a column of the rows that meet a condition.
func (t *target) read(ctx context.Context, column string, condition map[string]any) ([]byte, error) {
	return ask(ctx, http.MethodPost, t.addresses.Database+"/api/v1/db/read", map[string]any{"table": "bench", "columns": []string{column}, "condition": condition})
}

// lag returns how many entries the last replica of the product is behind; 0 for other paths.
func (t *target) lag(ctx context.Context) (lag uint64, err error) {
	if !t.product {
		return 0, nil
	}
	members, err := t.members(ctx)
	for _, m := range members {
		lag = max(lag, m.Lag)
	}
	return lag, err
}

// poll calls ask periodically until it returns true; if ctx ends first, poll returns problem.
func poll(ctx context.Context, every time.Duration, problem error, ask func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", problem, ctx.Err())
		}
	}
}
