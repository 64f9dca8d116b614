package scale_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/coord"
	"rideshare/orchestrator/scale"
)

const period = 2 * time.Minute

// cluster fakes the control loop and the coordinator behind it. Calls fail as fault says.
type cluster struct {
	mu     sync.Mutex
	slaves []int // the arguments of SetSlaves, in order
	wanted int   // Desired before the first SetSlaves
	values map[string]stored
	// fault, if set, is called before each call, and its error is the call's error. If lost is true, the call
	// is done all the same and only its answer is lost.
	fault func(call string) (lost bool, err error)
}

// lines collects a log. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (c *cluster) meet(ctx context.Context, call string, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		if lost, err := c.fault(call); err != nil {
			if lost {
				_ = do()
			}
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return do()
}

func (c *cluster) SetSlaves(ctx context.Context, n int) error {
	return c.meet(ctx, "slaves", func() error {
		c.slaves = append(c.slaves, n)
		return nil
	})
}

// stored is a value of the coordinator.
type stored struct {
	data    []byte
	version coord.Version
}

func (c *cluster) Desired() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.slaves) == 0 {
		return c.wanted
	}
	return c.slaves[len(c.slaves)-1]
}

// want sets Desired.
func (c *cluster) want(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = n
}

func (c *cluster) Value(ctx context.Context, name string) (data []byte, version coord.Version, err error) {
	err = c.meet(ctx, "read", func() error {
		if c.values[name].version == 0 {
			return coord.ErrNone
		}
		data, version = slices.Clone(c.values[name].data), c.values[name].version
		return nil
	})
	return data, version, err
}

func (c *cluster) SetValue(ctx context.Context, name string, value []byte, old coord.Version) error {
	return c.meet(ctx, "write", func() error {
		if old != c.values[name].version {
			return coord.ErrVersion
		}
		if c.values == nil {
			c.values = map[string]stored{}
		}
		c.values[name] = stored{slices.Clone(value), old + 1}
		return nil
	})
}

func (c *cluster) failAs(fault func(call string) (lost bool, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// failCall makes one call fail. If lost is true, the call is done all the same.
func (c *cluster) failCall(name string, lost bool) {
	c.failAs(func(call string) (bool, error) {
		if call == name {
			return lost, errAway
		}
		return false, nil
	})
}

func (c *cluster) set() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.slaves)
}

func configOf(c *cluster, name string) scale.Config {
	return scale.Config{Log: slog.New(slog.DiscardHandler), Cluster: c, Name: name, Settings: settings, Period: period}
}

func start(t *testing.T, cfg scale.Config) *scale.Scaler {
	t.Helper()
	s, err := scale.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeScaler(t *testing.T, s *scale.Scaler) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func read(s *scale.Scaler, n int) {
	for range n {
		s.Requested()
		s.Read()
	}
}

// scene is a test in fake time with one scaler on an empty coordinator.
type scene struct {
	*testing.T
	scaler  *scale.Scaler
	cluster *cluster
}

func play(t *testing.T, test func(x *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		defer closeScaler(t, s)
		test(&scene{T: t, scaler: s, cluster: c})
	})
}

func (x *scene) want(decisions []outcome, set []int) {
	x.Helper()
	want(x.T, x.scaler, x.cluster, decisions, set)
}

// pass advances the time and waits until everything is idle.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

type outcome struct {
	Count, Wanted int
	Done          bool
}

func outcomes(t *testing.T, s *scale.Scaler) []outcome {
	t.Helper()
	var out []outcome
	for _, d := range s.Decisions(t.Context()) {
		out = append(out, outcome{d.Count, d.Wanted, d.Done})
		if d.Why == "" {
			t.Errorf("decision without a reason: %+v", d)
		}
	}
	return out
}

func want(t *testing.T, s *scale.Scaler, c *cluster, decisions []outcome, set []int) {
	t.Helper()
	if diff := cmp.Diff(decisions, outcomes(t, s)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set, c.set()); diff != "" {
		t.Errorf("slave counts written (-want +got):\n%s", diff)
	}
}
