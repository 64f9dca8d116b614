package load

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
)

// verifyLimit bounds the final check, which waits for a system that is not complete yet.
const verifyLimit = 2 * time.Minute

// verify reads back what the run has written.
func (d *driver) verify(ctx context.Context) ledger.Check {
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	c := ledger.Check{Acknowledged: map[string]int{}, Wrong: d.wrong}
	for _, step := range []func(context.Context, *ledger.Check) error{d.verifyUsers, d.verifyRides, d.verifyJoins, d.verifyWrites} {
		if err := step(ctx, &c); err != nil {
			c.Problem = err.Error()
			break
		}
	}
	c.Finish()
	return c
}

func (d *driver) verifyUsers(ctx context.Context, c *ledger.Check) error {
	r, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return d.client.users.Call(ctx, http.MethodGet, "/api/v1/users", nil)
	}, http.StatusOK)
	if err != nil {
		return fmt.Errorf("list the users: %w", err)
	}
	names, err := api.Decode[[]string](r)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, name := range names {
		times[name]++
	}
	d.book.users.Compare(c, "user", times)
	return nil
}

// verifyRides reads the rides of each user of the pool from the database.
func (d *driver) verifyRides(ctx context.Context, c *ledger.Check) error {
	type key struct{ creator, timestamp string }
	type row struct {
		ID          int64  `json:"rideId"`
		Timestamp   string `json:"timestamp"`
		Source      int    `json:"source"`
		Destination int    `json:"destination"`
	}
	found := map[key][]row{}
	for _, user := range d.book.pool {
		rows, err := rowsOf[row](ctx, d.client, "rides", []string{"rideId", "timestamp", "source", "destination"}, map[string]any{"created_by": user})
		if err != nil {
			return err
		}
		for _, r := range rows {
			found[key{user, r.Timestamp}] = append(found[key{user, r.Timestamp}], r)
		}
	}
	for _, ride := range d.book.rides {
		rows := found[key{ride.creator, ride.timestamp}]
		c.Note("ride", fmt.Sprintf("of %s at %s", ride.creator, ride.timestamp), ride.fate, len(rows))
		delete(found, key{ride.creator, ride.timestamp})
		if len(rows) == 0 {
			continue
		}
		if got := rows[0]; (ride.fate == ledger.Applied && got.ID != ride.id) || (route{got.Source, got.Destination}) != ride.route {
			c.Wrong.Add("ride of %s at %s is %+v, want id %d, %+v", ride.creator, ride.timestamp, got, ride.id, ride.route)
		}
		ride.id = rows[0].ID // sets the id also of a ride whose answer was lost
	}
	for k, rows := range found {
		c.Unasked.Add("%d rides of %s at %s, which no client created", len(rows), k.creator, k.timestamp)
	}
	return nil
}

// verifyJoins reads the seats of each user of the pool from the database.
func (d *driver) verifyJoins(ctx context.Context, c *ledger.Check) error {
	type seat struct {
		ride int64
		user string
	}
	found := map[seat]int{}
	for _, user := range d.book.pool {
		rows, err := rowsOf[struct {
			ID int64 `json:"rideId"`
		}](ctx, d.client, "riders", []string{"rideId"}, map[string]any{"user": user})
		if err != nil {
			return err
		}
		for _, r := range rows {
			found[seat{r.ID, user}]++
		}
	}
	for _, ride := range d.book.rides {
		for user, f := range ride.joined {
			c.Note("join", fmt.Sprintf("of %s to ride %d", user, ride.id), f, found[seat{ride.id, user}])
			delete(found, seat{ride.id, user})
		}
	}
	for s := range found {
		c.Unasked.Add("%s is in ride %d without having joined", s.user, s.ride)
	}
	return nil
}

// rowsOf reads rows through the structured form.
func rowsOf[T any](ctx context.Context, c *client, table string, columns []string, condition map[string]any) ([]T, error) {
	r, err := api.Insist(ctx, func(ctx context.Context) api.Reply { return c.read(ctx, table, columns, condition) }, http.StatusOK)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", table, err)
	}
	return api.Decode[[]T](r)
}

// verifyWrites reads the table of raw writes.
func (d *driver) verifyWrites(ctx context.Context, c *ledger.Check) error {
	rows, err := rowsOf[struct {
		N int `json:"n"`
	}](ctx, d.client, table, []string{"n"}, map[string]any{"run": d.book.run})
	if err != nil {
		return err
	}
	times := map[int]int{}
	for _, row := range rows {
		times[row.N]++
	}
	d.book.writes.Compare(c, "write", times)
	for n := range times {
		c.Unasked.Add("row %d of %s, which no client wrote", n, table)
	}
	return nil
}

// clean removes what the run has written: its users, with all their rides and seats, and its raw rows.
func (d *driver) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	for name := range d.book.users.Fates() {
		_, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
			return d.client.users.Call(ctx, http.MethodDelete, "/api/v1/users/"+name, nil)
		}, http.StatusOK, http.StatusBadRequest) // 400: it never existed, or an earlier attempt has removed it.
		if err != nil {
			return fmt.Errorf("remove user %s: %w", name, err)
		}
	}
	statement := []any{[]any{"DELETE FROM " + table + " WHERE run = ?", d.book.run}}
	if _, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return d.client.orchestrator.Call(ctx, http.MethodPost, "/db/execute", statement)
	}, http.StatusOK); err != nil {
		return fmt.Errorf("remove the raw rows: %w", err)
	}
	return nil
}
