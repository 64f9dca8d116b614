// Package load has the load scenes of skilift.
package load

import (
	"cmp"
	"context"
	"flag"
	"io"
	"time"

	"github.com/google/uuid"

	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
)

// settings are the flags that only skilift's scenes have.
type settings struct {
	service, days string
	threads       int
	deadline      time.Duration // of the service
}

// scenes are the scenes by name.
var scenes = map[string]scene.Scene[*play]{
	"ski-180k":      {Help: "180,000 rides of 20,000 skiers in three phases; --threads n", Play: skiers20k},
	"ski-200k":      {Help: "200,000 rides a day: 32 threads, then 200 more", Play: fullDays},
	"ski-breaker":   {Help: "ski-200k under the presets 2000-2s, 7500-5s and 10000-5s, with and without clients that pause", Play: breaker},
	"ski-kill":      {Help: "ski-200k with keys, while master, slave and broker are killed", Play: kill},
	"ski-queryable": {Help: "how soon a ride is seen after its answer, sync and async", Play: queryable},
	"ski-read":      {Help: "three days of ski-200k, then 64,000 each of three queries", Play: reads},
	"ski-sweep":     {Help: "500, 1,000, 2,000 ... rides a second until the service cannot follow", Play: sweep},
}

// Main plays the scene that args name and returns the exit code: 0 if nothing was wrong, 1 otherwise, 2 for wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	command := scene.Command[*play]{
		Name: "skilift load", Scenes: scenes,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&s.service, "service", "http://127.0.0.1:8084", "`URL` of skilift")
			flags.IntVar(&s.threads, "threads", 128, "ski-180k: `n`")
			flags.DurationVar(&s.deadline, "deadline", 10*time.Second, "ski-breaker: the --deadline of the service; an answer that comes more than a second after it is wrong")
			flags.StringVar(&s.days, "days", "", "ski-200k: `days`, one after the other, such as 1,2,3 (default one at random)")
		},
		Check: func() error {
			return cmp.Or(scene.AtLeast(4, "--threads", s.threads), scene.AtLeast(1, "--deadline", s.deadline))
		},
		Play: func(ctx context.Context, r *scene.Run, one scene.Scene[*play]) {
			p := &play{Run: r, settings: s, db: db.New(r.Database, "skilift", r.Authorization), id: uuid.NewString()}
			if p.choose(ctx) {
				one.Play(ctx, p)
				p.check(context.WithoutCancel(ctx)) // What was done before an early end is checked, too.
			}
		},
	}
	return command.Main(ctx, args, stdout, stderr)
}
