package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"rideshare/bench/ladder"
	"rideshare/bench/report"
	"rideshare/system"
)

// benchFailoverCommand is `rideshare bench failover`.
type benchFailoverCommand struct {
	benchServices
	sessionSetting
	Kills        int    `default:"50" env:"BENCH_KILLS" help:"How often the master goes (${default})."`
	Mode         string `default:"kill" enum:"kill,crash,pause,stuck,spin,planned" env:"BENCH_MODE" help:"How: kill (SIGKILL, noticed by the system itself), crash (crash/master, which wakes the control loop too), pause (SIGSTOP), stuck or spin (it answers, and its commits wait or loop for ever: only a binary built with -tags failpoint), planned (hand-over); all but crash and planned need workers that are processes of this machine, or that the run starts (${default})."`
	Launcher     string `default:"inproc" enum:"inproc,process" env:"BENCH_LAUNCHER" help:"What is started for the run: inproc (everything in this process) or process (a process for each worker, on RabbitMQ and ZooKeeper) (${default})."`
	Orchestrator string `default:"" placeholder:"URL" env:"BENCH_ORCHESTRATOR" help:"Base URL of a running system to measure instead of one started for the run, ${orSeveral}; then a write without an answer is sent once more elsewhere."`
	Writes       int    `default:"200" env:"BENCH_WRITES" help:"Writes a second (${default})."`
	Reads        int    `default:"200" env:"BENCH_READS" help:"Reads a second (${default})."`
	Slaves       int    `default:"2" env:"BENCH_SLAVES" help:"Slaves of the system that is started (${default})."`
	JSON         string `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
}

// Run measures and prints. Lost, doubled and unasked writes, and writes that do not come back, are an error.
func (b *benchFailoverCommand) Run(ctx context.Context, out *output) error {
	if b.Kills < 1 || b.Writes < 1 || b.Reads < 0 || b.Slaves < 1 {
		return usagef("--kills, --writes and --slaves must be at least 1, --reads not negative")
	}
	if ladder.FailoverMode(b.Mode).Hangs() && b.Orchestrator == "" && b.Launcher != launcherProcess {
		return usagef("--mode %s needs workers that are processes: --launcher process", b.Mode)
	}
	if err := b.checkLength(out); err != nil {
		return err
	}
	if b.Orchestrator != "" {
		if err := checkURLs("--orchestrator", b.Orchestrator); err != nil {
			return err
		}
	}
	cfg := ladder.FailoverConfig{
		Orchestrator: b.Orchestrator, Mode: ladder.FailoverMode(b.Mode), Kills: b.Kills, Slaves: b.Slaves,
		Writes: b.Writes, Reads: b.Reads, Progress: progressOn(out.stderr),
	}
	if b.Orchestrator == "" && b.Launcher == launcherProcess {
		env, err := b.environment()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("failover-%d", os.Getpid())
		cfg.Processes = &system.Processes{Bus: env.Bus, Coordinator: env.Coordinator + "/" + name, Session: b.Session, Prefix: name + ".", LogLevel: "error"}
	}
	figures, err := ladder.Failover(ctx, cfg)
	if figures == nil {
		return err
	}
	return errors.Join(err, report.WriteJSON(b.JSON, figures), figures.Print(out.stdout))
}

// checkLength rejects a session length that would not apply to the run.
func (b *benchFailoverCommand) checkLength(out *output) error {
	switch {
	case b.Orchestrator != "":
		return b.refuseSession(out, "the system at --orchestrator has its own")
	case b.Launcher != launcherProcess:
		return b.refuseSession(out, "only --launcher process has such sessions")
	default:
		return b.checkSession()
	}
}
