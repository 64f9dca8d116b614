// Package overload plays the scenes of overload. Each scene sends a load that the system cannot serve, or must serve
// despite its protection from overload, and judges the result. `rideshare load n1` to `rideshare load n6` run them.
package overload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/bench/ladder"
	"rideshare/internal/progressbar"
	"rideshare/internal/tlsfiles"
	"rideshare/orchestrator/admission"
)

// Start says which system a scene is played on.
type Start string

// The systems.
const (
	StartNone     Start = "none"     // the running system at Config.Orchestrator
	StartEmbedded Start = "embedded" // a system that is started for the scene, in one process
	StartProcess  Start = "process"  // a system that is started for the scene, on a broker and a coordinator
)

// Config says what to play. The zero value of a setting from Works on is its default.
type Config struct {
	Scene string
	Start Start
	// Environment has the broker and the coordinator for StartProcess.
	Environment ladder.Environment
	// Orchestrator is the base URL of a running system, or several, see api.Client.At; Authorization and TLS are for it. The credential needs the role admin.
	Orchestrator, Authorization string
	TLS                         *tlsfiles.Files
	// Short plays a short form of the scene, which judges only counts that do not depend on the speed of the machine.
	Short bool
	// Works are read, write or both.
	Works []string
	// Rows is how many rows an aggregate reads, and so how slow both works are: 10,000.
	Rows int
	// LaneLimit, if it is set, is the limit of the lanes during the scene.
	LaneLimit *admission.LaneSetting
	// Knee is the knee in requests a second; zero measures it.
	Knee float64
	// Length is the length of each stage in the long form: 1 minute.
	Length time.Duration
	// Writes is how many writes N4 sends: 200,000. Clients is how many clients send them: 256.
	Writes, Clients int
	// Rate is what N5 sends a second in the long form: 5,000.
	Rate float64
	// AlarmSet and AlarmClear are shell commands that raise and clear an alarm of the broker, for the long form of N5.
	// Without them the scene holds the broker's breaker open.
	AlarmSet, AlarmClear string
	// Kills is how many masters N6 kills with the protection; it kills as many without. The default is 50.
	Kills int
	// Progress receives a line for each stage, and shows the progress of the ladder.
	Progress progressbar.Output
}

// scene is one of the scenes.
type scene struct {
	name, about string
	// Exactly one of play and own is set. play plays the scene on a running system, own starts its own systems.
	play func(context.Context, *stage) error
	own  func(context.Context, *stage) error
}

func all() []scene {
	return []scene{
		{name: "n1", about: "an open loop at 1, 3 and 1 times the knee", play: playKnee},
		{name: "n2", about: "one user sends ten times the knee, another a tenth of it", play: playTwoUsers},
		{name: "n3", about: "point reads without overload, all stages on against off, in turn", own: playCost},
		{name: "n4", about: "writes with the event-count breaker that delays, and clients that never retry", play: playDelays},
		{name: "n5", about: "requests while breakers are open: the broker has an alarm, workers are crashed, the write queue is full", play: playOpenBreakers},
		{name: "n6", about: "killed masters, the protection on against off", own: playFailover},
	}
}

// ErrStart means that a scene compares two systems, and must start both.
var ErrStart = errors.New("this scene starts two systems to compare them: it needs --start embedded or --start process")

// Run plays a scene. An error means that the scene could not be played; what it has judged is in the result.
func Run(ctx context.Context, cfg Config) (result *Result, err error) {
	i := slices.IndexFunc(all(), func(s scene) bool { return s.name == cfg.Scene })
	if i < 0 {
		return nil, fmt.Errorf("no scene %q", cfg.Scene)
	}
	scene := all()[i]
	cfg.setDefaults()
	result = &Result{Scene: scene.name, About: scene.about, System: cfg.Start, Short: cfg.Short}
	s := &stage{cfg: cfg, result: result}
	if scene.own != nil {
		if cfg.Start == StartNone {
			return nil, ErrStart
		}
		err = scene.own(ctx, s)
	} else {
		err = s.onSystem(ctx, scene.play)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scene.name, err)
	}
	result.finish()
	return result, nil
}

func (c *Config) setDefaults() {
	if len(c.Works) == 0 {
		c.Works = []string{workRead, workWrite}
	}
	c.Rows = cmp.Or(c.Rows, readRows)
	c.Length = cmp.Or(c.Length, time.Minute)
	c.Writes = choose(c.Writes, c.Short, 200_000, 3000)
	c.Clients = choose(c.Clients, c.Short, 256, 32)
	c.Rate = cmp.Or(c.Rate, 5000)
	c.Kills = choose(c.Kills, c.Short, 50, 1)
}

// choose returns value, or its default in the long or the short form.
func choose(value int, short bool, long, brief int) int {
	if short {
		long = brief
	}
	return cmp.Or(value, long)
}

// onSystem plays on the running system, or on a system that it starts. Afterwards it puts back the settings that the scene
// has changed.
func (s *stage) onSystem(ctx context.Context, play func(context.Context, *stage) error) (err error) {
	url := s.cfg.Orchestrator
	if s.cfg.Start != StartNone {
		env := s.cfg.Environment
		if s.cfg.Start == StartEmbedded {
			env = ladder.Environment{}
		}
		system, startErr := ladder.StartStandalone(ctx, env)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, system.Stop()) }()
		url = system.URL()
	}
	if err = s.connect(url); err != nil {
		return err
	}
	defer s.client.HTTP.CloseIdleConnections()
	defer func() { err = errors.Join(err, s.protection.Restore(context.WithoutCancel(ctx))) }()
	if err = s.prepare(ctx); err != nil {
		return err
	}
	if err = play(ctx, s); err != nil {
		return err
	}
	return s.verify(ctx)
}
