package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

// coordinator keeps values for several orchestrators.
type coordinator struct {
	mu     sync.Mutex // guards the fields below
	values map[string][]byte
	at     map[string]coord.Version
	writes map[string][]time.Time
	leader string
	down   bool
}

func newCoordinator() *coordinator {
	return &coordinator{values: map[string][]byte{}, at: map[string]coord.Version{}, writes: map[string][]time.Time{}, leader: "a"}
}

// client is one orchestrator's access.
type client struct {
	*coordinator
	name string
}

func (c client) Leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader == c.name
}

func (c *coordinator) Value(_ context.Context, name string) ([]byte, coord.Version, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch value, known := c.values[name]; {
	case c.down:
		return nil, 0, coord.ErrUnavailable
	case !known:
		return nil, 0, coord.ErrNone
	default:
		return slices.Clone(value), c.at[name], nil
	}
}

func (c *coordinator) SetValue(_ context.Context, name string, value []byte, old coord.Version) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down:
		return coord.ErrUnavailable
	case c.at[name] != old:
		return coord.ErrVersion
	}
	c.values[name] = slices.Clone(value)
	c.at[name]++
	c.writes[name] = append(c.writes[name], time.Now())
	return nil
}

func (c *coordinator) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// orchestrator is one of several gates on a coordinator.
type orchestrator struct {
	*Gate
	turn chan struct{} // who takes its element may run; stop takes it for longer
	die  context.CancelFunc
}

// join starts an orchestrator. The caller ends it with die.
func join(t *testing.T, c *coordinator, name string, settings Settings) *orchestrator {
	t.Helper()
	o := &orchestrator{turn: make(chan struct{}, 1)}
	o.resume()
	gate, err := New(Config{
		Log: slog.New(slog.DiscardHandler), Name: name, Settings: settings, CallTimeout: testTimeout, Store: client{c, name},
		Broker: func() bool { return true }, Master: func() (bool, time.Time) { return true, time.Time{} },
		Slaves: func() (int, time.Time) { return 1, time.Time{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Gate = gate
	var ctx context.Context
	ctx, o.die = context.WithCancel(t.Context())
	go func() { // as Run, but it can be stopped
		s := &sharing{}
		for ctx.Err() == nil {
			o.stop()
			gate.share(ctx, s)
			o.resume()
			wait.For(ctx, sharePeriod)
		}
	}()
	return o
}

func (o *orchestrator) stop() { <-o.turn }

func (o *orchestrator) resume() { o.turn <- struct{}{} }

func (o *orchestrator) take(class Class) bool {
	o.stop()
	defer o.resume()
	guest, err := o.Arrive("ann", class)
	if err == nil {
		o.Leave(guest, nil)
	}
	return err == nil
}

func shared(write, total string) Settings {
	s := Defaults()
	s.Limits.Mode, s.Limits.Write, s.Limits.WriteTotal = Shared, write, total
	return s
}

// Nine tenths of the limit go to where the requests come, within 5 s.
func TestShared_FollowsTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		var all []*orchestrator
		for _, name := range []string{"a", "b", "c"} {
			o := join(t, c, name, shared(None, "900:900"))
			defer o.die()
			all = append(all, o)
		}
		time.Sleep(15 * time.Second)
		busy, end := all[1], time.Now().Add(5*time.Second)
		for time.Now().Before(end) {
			busy.take(Write)
			time.Sleep(time.Millisecond)
		}
		for i, want := range []float64{30, 840, 30} {
			if got := 900 * all[i].Status().Shares.Write; got < want-1 || got > want+1 {
				t.Errorf("%d: got %.0f of 900, want %.0f", i, got, want)
			}
		}
		c.set(func() {
			writes := c.writes[sharesName]
			for i := 1; i < len(writes); i++ {
				if pause := writes[i].Sub(writes[i-1]); pause < time.Second {
					t.Errorf("the shares were written twice within %v", pause)
				}
			}
		})
	})
}

// Orchestrators that join, die, stop and go on never give more than the limit together.
func TestShared_NeverMoreThanTheLimit(t *testing.T) {
	for _, limits := range [][2]string{{"60:60", None}, {None, "60:60"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCoordinator()
			var mu sync.Mutex
			all := map[string]*orchestrator{}
			add := func(name string) {
				o := join(t, c, name, shared(limits[0], limits[1]))
				mu.Lock()
				defer mu.Unlock()
				all[name] = o
			}
			remove := func(name string) *orchestrator {
				mu.Lock()
				defer mu.Unlock()
				o := all[name]
				delete(all, name)
				return o
			}
			add("a")
			plan := []struct {
				at float64
				do func()
			}{
				{5, func() { add("b") }},
				{7, func() { add("c") }},
				{14, func() { all["b"].stop() }},
				{20, func() { all["b"].resume() }},
				{26, func() { remove("a").die(); c.set(func() { c.leader = "c" }) }},
				{33, func() { c.set(func() { c.down = true }) }},
				{39, func() { c.set(func() { c.down = false }) }},
				{42, func() { all["c"].stop(); c.set(func() { c.leader = "b" }) }},
				{49, func() { all["c"].resume() }},
			}
			began := time.Now()
			go func() {
				for _, step := range plan {
					time.Sleep(time.Until(began.Add(time.Duration(step.at * float64(time.Second)))))
					step.do()
				}
			}()
			turn := 0
			given := hammer(t, 55*time.Second, func() bool {
				mu.Lock()
				turn++
				names := []string{"a", "b", "c"}
				o := all[names[turn%3]]
				if turn%5 != 0 && all["b"] != nil { // b gets the most
					o = all["b"]
				}
				mu.Unlock()
				return o != nil && o.take(Write)
			})
			bounded(t, given, 60, 60)
			if len(given) < 1200 {
				t.Errorf("given only %d in 55 s, want more than a third of the limit", len(given))
			}
			for name := range all {
				remove(name).die()
			}
			time.Sleep(time.Second)
		})
	}
}

// An orchestrator that has not read its share for 2 s gives nothing. While the coordinator is away it keeps its share.
func TestShared_Lease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		o := join(t, c, "a", shared(None, "60:60"))
		defer o.die()
		if o.take(Write) || !o.take(Read) {
			t.Error("before the orchestrator knew its share a write was admitted, or a read refused, which has no limit")
		}
		time.Sleep(10 * time.Second)
		c.set(func() { c.down = true })
		time.Sleep(10 * time.Second)
		if !o.take(Write) {
			t.Error("no request was admitted while the coordinator was away")
		}
		c.set(func() { c.down = false })
		time.Sleep(time.Second)
		o.die() // it reads its share no more
		time.Sleep(lease + sharePeriod)
		_, err := o.Arrive("ann", Write)
		if dbaas.ReasonOf(err) != dbaas.ReasonClassRate {
			t.Errorf("got %v without a lease, want class_rate", err)
		}
		o.share(t.Context(), &sharing{})
		if o.take(Write) {
			t.Error("a share after a lapsed lease did not start empty")
		}
		time.Sleep(100 * time.Millisecond)
		if !o.take(Write) {
			t.Error("the share does not fill again")
		}
	})
}

// A new user of an orchestrator whose share is old finds as many tokens as anyone who has taken none.
func TestShared_NewUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		o := join(t, c, "a", shared("10:20", None))
		defer o.die()
		time.Sleep(20 * time.Second)
		given := 0
		for o.take(Write) {
			given++
		}
		if given != 20 {
			t.Errorf("given %d at once, want the burst of 20", given)
		}
	})
}

// A PATCH at one orchestrator counts at another within 2 s, and after a restart. While the coordinator is away the settings
// stay.
func TestGate_Patch_IsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		begin := func(name string) *Gate {
			o := join(t, c, name, Defaults())
			o.die()
			running.Go(func() { o.Run(ctx) })
			return o.Gate
		}
		inflight := func(g *Gate) any { return g.Status().Settings["inflight"].Value }
		a, b := begin("a"), begin("b")
		if err := a.Patch(ctx, []byte(`{"inflight":7}`)); err != nil || inflight(a) != 7.0 {
			t.Errorf("got %v and %v, want 7 at once", err, inflight(a))
		}
		time.Sleep(1999 * time.Millisecond)
		if got := inflight(b); got != 7.0 {
			t.Errorf("the other has %v after 2 s, want 7", got)
		}
		again := begin("a")
		time.Sleep(time.Millisecond)
		if got := inflight(again); got != 7.0 {
			t.Errorf("after a restart: got %v, want 7", got)
		}
		c.set(func() { c.down = true })
		time.Sleep(10 * time.Second)
		if err := a.Patch(ctx, []byte(`{"inflight":8}`)); dbaas.CodeOf(err) != dbaas.CodeUnavailable || inflight(a) != 7.0 {
			t.Errorf("got %v and %v without the coordinator, want unavailable and 7", err, inflight(a))
		}
		// A newer version's settings that this one does not know are not followed.
		for _, stored := range []string{`{"inflight":9,"future":1}`, `{"Inflight":9}`} {
			c.set(func() { c.down, c.values[valueName] = false, []byte(stored) })
			time.Sleep(2 * time.Second)
			if got := inflight(b); got != 7.0 {
				t.Errorf("got %v from %s, which is not known", got, stored)
			}
		}
		cancel()
		running.Wait()
	})
}

// PATCHes of several orchestrators at the same time all count.
func TestGate_Patch_AtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		var all sync.WaitGroup
		for i, patch := range []string{`{"inflight":7}`, `{"depth":{"wait":8}}`, `{"depth":{"open":9}}`} {
			o := join(t, c, strconv.Itoa(i), Defaults())
			o.die()
			all.Go(func() {
				if err := o.Patch(t.Context(), []byte(patch)); err != nil && dbaas.CodeOf(err) != dbaas.CodeInvalid {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var kept Settings
		if err := json.Unmarshal(c.values[valueName], &kept); err != nil || kept.Inflight != 7 {
			t.Errorf("kept %s: %v", c.values[valueName], err)
		}
		time.Sleep(time.Second)
	})
}
