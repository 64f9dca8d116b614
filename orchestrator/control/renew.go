package control

import (
	"context"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// renew assigns the newest master its role again while the coordinator is away. So the master knows that no other master is
// being elected, and keeps serving although its session is suspended. An older master, as on a lost host, is not renewed.
func (l *Loop) renew(ctx context.Context, o Observed) {
	masters := filter(o.Workers, func(w Worker) bool { return w.Running && !w.Stopping && w.Role == dbaas.RoleMaster })
	if len(masters) == 0 {
		return
	}
	w := newestOf(masters)
	in, ok := l.instance(w.ID)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.step()) // the next pass retries
	defer cancel()
	err := l.cfg.Workers.Assign(ctx, in.Control, workerapi.Assignment{Worker: w.ID, Role: w.Role, PID: in.PID, Host: in.Host, Epoch: w.Epoch})
	if err != nil {
		l.cfg.Log.WarnContext(ctx, "leadership not renewed", logkey.Worker, string(w.ID), logkey.Error, err)
	}
}
