package system

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"rideshare/internal/telemetry"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/remote/launchapi"
)

// Launcher is a launcher to be served to orchestrators in other processes.
type Launcher struct {
	service *launchapi.Service
	end     func(context.Context) error
}

// NewProcessLauncher returns a Launcher whose workers are children of this process and live exactly as long as it. It
// uses Log, Data, Processes and About of cfg; callers must send token.
func NewProcessLauncher(cfg Config, token string) (*Launcher, error) {
	workers, err := newProcessLauncher(cfg, *cfg.Processes)
	if err != nil {
		return nil, err
	}
	end := func(ctx context.Context) error {
		return errors.Join(stopWorkers(ctx, workers, newPatientTransport(cfg.TLS)), workers.Close(ctx))
	}
	l, err := newLauncher(cfg, token, workers)
	if err != nil {
		return nil, errors.Join(err, end(context.Background()))
	}
	l.end = end
	return l, nil
}

// NewDockerLauncher returns a Launcher whose workers are containers, which keep running when this process ends.
func NewDockerLauncher(cfg Config, token string) (*Launcher, error) {
	workers, end, err := newDockerLauncher(cfg, *cfg.Processes)
	if err != nil {
		return nil, err
	}
	l, err := newLauncher(cfg, token, workers)
	if err != nil {
		return nil, errors.Join(err, end(context.Background()))
	}
	l.end = end
	return l, nil
}

func newLauncher(cfg Config, token string, workers launch.Launcher) (*Launcher, error) {
	m := metrics{registry: cmp.Or(cfg.Metrics, telemetry.NewRegistry())}
	observe, err := m.of("launcher")
	if err != nil {
		return nil, err
	}
	if err := telemetry.Register(m.registry, LauncherMetric(workers)); err != nil {
		return nil, err
	}
	return &Launcher{service: launchapi.New(launchapi.Config{
		Launcher: workers, Log: cfg.Log, Token: token, Observe: observe, Metrics: m.handler(), Settings: cfg.About.Settings,
	})}, nil
}

// LauncherMetric returns the metric of a launcher that serves orchestrators in other processes.
func LauncherMetric(workers launch.Launcher) telemetry.Sampled {
	return telemetry.Sampled{
		Name: "rideshare_launcher_workers", Help: "Workers that were not removed, by state.", Gauge: true, Labels: []string{"state"},
		Read: func(emit func(float64, ...string)) {
			list, err := briefly(workers.List)
			if err != nil {
				return // the engine is away: no value is better than a wrong one
			}
			running := 0
			for _, i := range list {
				if i.Running {
					running++
				}
			}
			emit(float64(running), "running")
			emit(float64(len(list)-running), "dead")
		},
	}
}

// Handler is the launcher's API.
func (l *Launcher) Handler() http.Handler { return l.service.Handler() }

// Shutdown releases the callers that wait for events, so that the server can end.
func (l *Launcher) Shutdown() { l.service.Shutdown() }

// Close ends everything that must not outlive this process.
func (l *Launcher) Close(ctx context.Context) error { return l.end(ctx) }
