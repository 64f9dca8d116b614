package main

import (
	"context"
	"errors"

	"rideshare/bench/overload"
	"rideshare/bench/report"
	"rideshare/orchestrator/admission"
)

// sceneSettings are the settings of `rideshare load` that only its scenes have.
type sceneSettings struct {
	Scene string `arg:"" optional:"" default:"" enum:",n1,n2,n3,n4,n5,n6" help:"Play a scene of overload instead, and judge it: n1 the knee and beyond, n2 a greedy and a modest user, n3 what the protection costs, n4 writes that are delayed, n5 no broker, no worker, a full queue, n6 fail-over."`
	Start string `default:"none" enum:"none,embedded,process" env:"LOAD_START" help:"Scenes: the system to play on: none (the one at --orchestrator, with ADMISSION on), embedded (started in one process), process (started on RabbitMQ and ZooKeeper, with a process for each worker) (${default})."`
	benchServices

	Short      bool                   `env:"LOAD_SHORT" help:"Scenes: for some seconds; judges no times and no rates."`
	Works      []string               `default:"read,write" enum:"read,write" env:"LOAD_WORKS" help:"n1, n2: an aggregate read of about 1 ms, a write of 20 rows after such an aggregate (${default})."`
	Rows       int                    `default:"10000" env:"LOAD_ROWS" help:"n1, n2, n4, n5: rows of the aggregate, which decide how slow the works are (${default})."`
	Knee       float64                `default:"0" env:"LOAD_KNEE" help:"n1, n2: requests a second that the system can just serve; 0 measures them."`
	LaneLimit  *admission.LaneSetting `placeholder:"LIMIT" env:"LOAD_LANE_LIMIT" help:"n1, n2, n4, n5: limit of the lanes during the scene, a number or adaptive. Default: that of the system."`
	Writes     int                    `default:"0" env:"LOAD_WRITES" help:"n4: how many writes; 0: 200000."`
	AlarmSet   string                 `placeholder:"COMMAND" env:"LOAD_ALARM_SET" help:"n5: command for the shell that raises an alarm of the broker. Default: the broker's breaker is held open instead."`
	AlarmClear string                 `placeholder:"COMMAND" env:"LOAD_ALARM_CLEAR" help:"n5: command for the shell that clears the alarm."`
	Kills      int                    `default:"0" env:"LOAD_KILLS" help:"n6: how many masters are killed with the protection, and as many without; 0: 50."`
}

// errMissed means that a scene was played and judged.
var errMissed = errors.New("the scene has missed a goal, see above")

// playScene plays a scene, writes its result, and returns an error if it has missed a goal.
func (l *loadCommand) playScene(ctx context.Context, out *output) error {
	cfg, err := l.scene(ctx, out)
	if err != nil {
		return err
	}
	result, err := overload.Run(ctx, cfg)
	if errors.Is(err, overload.ErrStart) {
		return usagef("%s: %v", l.Scene, overload.ErrStart)
	}
	if result == nil {
		return err
	}
	if err = errors.Join(err, report.WriteJSON(l.JSON, result), result.Print(out.stdout)); err == nil && !result.OK {
		return errMissed
	}
	return err
}

// scene checks the settings of a scene.
func (l *loadCommand) scene(ctx context.Context, out *output) (overload.Config, error) {
	targets, err := l.targets()
	authorization, authErr := l.authorization(ctx, out)
	if l.Knee < 0 || l.Writes < 0 || l.Kills < 0 || l.Clients < 0 || l.Rate < 0 || l.Duration <= 0 || len(l.Works) == 0 || l.Rows < 20 {
		err = joinUsage(err, usagef("--knee, --writes, --kills, --clients and --rate must not be negative, --duration positive, --works not empty, --rows at least 20"))
	}
	if (l.AlarmSet == "") != (l.AlarmClear == "") {
		err = joinUsage(err, usagef("--alarm-set and --alarm-clear need each other"))
	}
	if l.HTML != "" || l.Phases != "" {
		err = joinUsage(err, usagef("a scene has neither --html nor --phases"))
	}
	if err = joinUsage(err, authErr); err != nil {
		return overload.Config{}, err
	}
	cfg := overload.Config{
		Scene: l.Scene, Start: overload.Start(l.Start), Orchestrator: targets.Orchestrator, Authorization: authorization, TLS: out.tls, Short: l.Short, Works: l.Works, Rows: l.Rows,
		LaneLimit: l.LaneLimit, Knee: l.Knee, Writes: l.Writes, Clients: l.Clients, Rate: l.Rate, Kills: l.Kills, AlarmSet: l.AlarmSet, AlarmClear: l.AlarmClear, Length: l.Duration, Progress: progressOn(out.stderr),
	}
	if cfg.Start == overload.StartProcess {
		cfg.Environment, err = l.environment()
	}
	return cfg, err
}
