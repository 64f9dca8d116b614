// Package load has the load scenes of skilift.
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

	"github.com/google/uuid"

	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
)

// settings are the settings of the scenes.
type settings struct {
	scene.Settings

	service, days string
	threads       int
}

// scenes are the scenes by name.
var scenes = map[string]struct {
	help string
	play func(context.Context, *play) error
}{
	"ski-180k":      {"180,000 rides of 20,000 skiers in three phases; --threads n", skiers20k},
	"ski-200k":      {"200,000 rides a day: 32 threads, then 200 more", fullDays},
	"ski-breaker":   {"ski-200k under the presets 2000-2s, 7500-5s and 10000-5s, with and without clients that pause", breaker},
	"ski-kill":      {"ski-200k with keys, while master, slave and broker are killed", kill},
	"ski-queryable": {"how soon a ride is seen after its answer, sync and async", queryable},
	"ski-read":      {"three days of ski-200k, then 64,000 each of three queries", reads},
	"ski-sweep":     {"500, 1,000, 2,000 ... rides a second until the service cannot follow", sweep},
}

// Main runs the scene that args name and returns the exit code: 0 if nothing was wrong, 1 otherwise, 2 for wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := settings{Settings: scene.Settings{Stdout: stdout, Stderr: stderr}}
	flags := flag.NewFlagSet("skilift load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "skilift load SCENE [flags]\n\nScenes:") // for people, as below
		for _, name := range slices.Sorted(maps.Keys(scenes)) {
			_, _ = fmt.Fprintf(stderr, "  %-14s %s\n", name, scenes[name].help)
		}
		flags.PrintDefaults()
	}
	s.Flags(flags)
	authFile := flags.String("auth-file", "", "`file` whose first 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the orchestrator")
	flags.StringVar(&s.service, "service", "http://127.0.0.1:8084", "`URL` of skilift")
	flags.IntVar(&s.threads, "threads", 128, "ski-180k: `n`")
	flags.StringVar(&s.days, "days", "", "ski-200k: `days`, one after the other, such as 1,2,3 (default one at random)")
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err == nil && (scenes[name].play == nil || flags.NArg() > 0 || s.threads < 4 || !(s.Scale > 0)) {
		err = errors.New("want a SCENE of --help, --threads of at least 4, and a --scale above 0")
	} else if err == nil {
		s.Authorization, err = db.ReadAuthorization(*authFile)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "skilift load:", err) // There is nowhere else to say it.
		return 2
	}
	return scene.Play(ctx, name, s.Settings, func(ctx context.Context, r *scene.Run) error {
		p := &play{Run: r, settings: s, db: db.New(s.Database, "skilift", s.Authorization), id: uuid.NewString()}
		if err := p.choose(ctx); err != nil {
			return err
		}
		return errors.Join(scenes[name].play(ctx, p), p.check(context.WithoutCancel(ctx)))
	})
}
