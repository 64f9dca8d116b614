// Package load has the load scenes of flashsale: each sends orders to running instances, and then compares every answer with
// the rows of the database.
package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
)

// config says what to run.
type config struct {
	scene.Settings
	services    []string // base URLs of the instances
	authFile    string
	orders      int // of the scenes storm and kill, before the scale
	connections int // orders in flight, but in burst and same-user
}

// scenes are the scenes by name.
var scenes = map[string]func(context.Context, *run) error{
	"burst": burst, "same-user": sameUser, "expire": expire, "leases": leases, "storm": storm, "kill": kill,
}

// Main is the command `flashsale load`. It returns the exit code: 0 if everything holds, 1 if not, 2 for wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name, cfg, err := parse(args, stderr)
	if err == nil {
		cfg.Authorization, err = db.ReadAuthorization(cfg.authFile)
	}
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		_, _ = fmt.Fprintln(stderr, "flashsale load:", err) // There is nowhere else to say it.
		return 2
	}
	cfg.Stdout, cfg.Stderr = stdout, stderr
	return scene.Play(ctx, name, cfg.Settings, func(ctx context.Context, s *scene.Run) error {
		r := &run{Run: s, cfg: cfg, database: db.New(cfg.Database, "flashsale", cfg.Authorization), ended: map[string]string{}, lost: map[string]bool{}}
		r.use(cfg.services...)
		if err := scenes[name](ctx, r); err != nil {
			return err
		}
		return r.verify(context.WithoutCancel(ctx)) // What was done before an early end is checked, too.
	})
}

func parse(args []string, stderr io.Writer) (name string, cfg config, err error) {
	flags := flag.NewFlagSet("flashsale load SCENE", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cfg.Flags(flags)
	services := flags.String("service", "http://127.0.0.1:8088", "`URLs` of the instances, with commas between them")
	flags.StringVar(&cfg.authFile, "auth-file", "", "`file` with the credentials for the database (default none)")
	flags.IntVar(&cfg.orders, "orders", 1_000_000, "orders of the scenes storm and kill")
	flags.IntVar(&cfg.connections, "connections", 512, "orders in flight, but in burst and same-user")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err = flags.Parse(args); err != nil {
		return "", cfg, err
	}
	if scenes[name] == nil || flags.NArg() > 0 || !(cfg.Scale > 0) || cfg.orders < 1 || cfg.connections < 1 {
		return "", cfg, fmt.Errorf("want a SCENE of %v, then flags with numbers above 0; see --help", slices.Sorted(maps.Keys(scenes)))
	}
	cfg.services = strings.Split(*services, ",")
	return name, cfg, nil
}
