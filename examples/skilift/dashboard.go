package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

//go:embed dashboard.html
var pageText []byte

// shownDays is how many days the dashboard shows at most: those with the most rides.
const shownDays = 200

// day is the resort, the season and the day.
type day [3]int64

// counts are the figures of one day.
type counts struct {
	rides  int64
	skiers map[int64]bool
	hours  map[int64]int64 // rides by hour
}

// dashboard keeps the figures of all days. One query gives the first state; the change feed keeps it current.
type dashboard struct {
	db *db.Client

	mu        sync.Mutex // guards what follows
	days      map[day]*counts
	total     int64
	seq       uint64
	position  string // where the feed continues
	connected bool
}

var errAskAgain = errors.New("the change feed does not say which rides changed")

// run keeps the figures current until ctx ends. It resumes a feed that broke off. While the feed cannot be resumed, run
// queries the figures once a second.
func (d *dashboard) run(ctx context.Context) {
	for resume := false; ctx.Err() == nil; web.Pause(ctx, time.Second) {
		if resume || d.query(ctx) == nil {
			resume = d.follow(ctx)
		}
	}
}

// query takes the figures from the database.
func (d *dashboard) query(ctx context.Context) error {
	a, err := result(d.db.Query(ctx, db.Options{}, db.SQL(`SELECT resort_id, season_id, day_id, skier_id, (ride_time - 1) / 60, count(*)
		FROM ski_rides GROUP BY 1, 2, 3, 4, 5`)))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.days, d.total, d.position = map[day]*counts{}, 0, a.Position()
	d.seq, _ = strconv.ParseUint(a.Seq, 10, 64) // The database sends a number.
	for _, row := range a.Results[0].Values {
		d.count(day{db.Int(row[0]), db.Int(row[1]), db.Int(row[2])}, db.Int(row[3]), db.Int(row[4]), db.Int(row[5]))
	}
	return nil
}

// follow applies the change feed until it ends. It reports whether the feed can continue where it ended. It cannot if
// the feed did not begin, because the database cannot be reached or the position is gone (410).
func (d *dashboard) follow(ctx context.Context) bool {
	err := d.db.Changes(ctx, d.position, "ski_rides", d.apply)
	d.mu.Lock()
	defer d.mu.Unlock()
	began := d.connected
	d.connected = false
	return began && !errors.Is(err, errAskAgain)
}

// apply counts the rides of one commit. An event may come twice. The service only adds rides; after any other change the
// figures are queried again.
func (d *dashboard) apply(e db.Event) error {
	if slices.ContainsFunc(e.Changes, func(c db.Change) bool { return c.Op != "insert" }) {
		return errAskAgain
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connected = true; e.Seq <= d.seq {
		return nil
	}
	for _, c := range e.Changes {
		k := c.Key
		d.count(day{db.Int(k["resort_id"]), db.Int(k["season_id"]), db.Int(k["day_id"])}, db.Int(k["skier_id"]), (db.Int(c.After["ride_time"])-1)/60, 1)
	}
	d.seq, d.position = e.Seq, e.Position()
	return nil
}

// count adds n rides of a skier in an hour. The caller holds mu.
func (d *dashboard) count(at day, skier, hour, n int64) {
	c := d.days[at]
	if c == nil {
		c = &counts{skiers: map[int64]bool{}, hours: map[int64]int64{}}
		d.days[at] = c
	}
	c.rides += n
	d.total += n
	c.hours[hour] += n
	c.skiers[skier] = true
}

// shown is the state as the page gets it. The page computes the rides per second.
func (d *dashboard) shown() object {
	d.mu.Lock()
	defer d.mu.Unlock()
	order := slices.SortedFunc(maps.Keys(d.days), func(a, b day) int {
		return cmp.Or(cmp.Compare(d.days[b].rides, d.days[a].rides), slices.Compare(a[:], b[:]))
	})
	list := []object{}
	for _, at := range order[:min(len(order), shownDays)] {
		c := d.days[at]
		list = append(list, object{"resortID": at[0], "seasonID": at[1], "dayID": at[2], "rides": c.rides, "skiers": len(c.skiers), "hours": maps.Clone(c.hours)})
	}
	return object{"seq": d.seq, "connected": d.connected, "rides": d.total, "days": list, "allDays": len(order)}
}

// liveLimit is how long a client may take for an event.
const liveLimit = 10 * time.Second

// live streams the state once a second as server-sent events. A client that stops reading is cut off.
func (s *service) live(w http.ResponseWriter, c call) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	for ok := true; ok && s.ctx.Err() == nil; ok = web.Pause(c.Context(), time.Second) {
		text, _ := json.Marshal(s.dashboard.shown())            // It has only numbers.
		_ = control.SetWriteDeadline(time.Now().Add(liveLimit)) // Flush repeats an error.
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		if control.Flush() != nil {
			return nil //nolint:nilerr // The client is gone.
		}
	}
	return nil
}

// page answers the dashboard's page, which loads nothing from elsewhere.
func (s *service) page(w http.ResponseWriter, _ call) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'")
	_, _ = w.Write(pageText) // The client may be gone.
	return nil
}
