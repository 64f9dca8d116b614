// Package load has the load scenes of flashsale. Each compares the answers of running instances with the rows of the database.
package load

import (
	"context"
	"flag"
	"io"
	"strings"

	"rideshare/bench/scene"
)

// scenes are the scenes by name.
var scenes = map[string]scene.Scene[*run]{
	"burst":     {Help: "1, 100 and 1,000 units, for which up to 10,000 buyers order at one moment", Play: burst},
	"same-user": {Help: "1,000 buyers with 10 simultaneous orders each, half of the buyers with one key for all ten", Play: sameUser},
	"expire":    {Help: "1,000 units are held, 600 are paid around the end of their holds", Play: expire},
	"leases":    {Help: "seven instances with leases, of which one is killed and one is stopped", Play: leases},
	"storm":     {Help: "--orders for 10,000 units of ten goods", Play: storm},
	"kill":      {Help: "--orders for half as many units, while master, slave and broker are killed", Play: kill},
}

// Main is the command `flashsale load`. It returns the exit code: 0 if everything holds, 1 if not, 2 for wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	sale := &run{ended: map[string]string{}, lost: map[string]bool{}}
	command := scene.Command[*run]{
		Name: "flashsale load", Scenes: scenes,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&sale.services, "service", "http://127.0.0.1:8088", "`URLs` of the instances, with commas between them")
			flags.IntVar(&sale.number, "orders", 1_000_000, "orders of the scenes storm and kill")
			flags.IntVar(&sale.connections, "connections", 512, "orders in flight, but in burst and same-user")
			flags.BoolVar(&sale.flag, "sold-out-flag", true, "the instances use the sold-out flag; storm and kill then fail if the database gives more than 1 % of the sold-out answers")
		},
		Check: func() error { return scene.AtLeast(1, "--orders and --connections", sale.number, sale.connections) },
		Play: func(ctx context.Context, r *scene.Run, one scene.Scene[*run]) {
			sale.Run, sale.number = r, max(100, r.Scaled(sale.number))
			sale.instances.Use(strings.Split(sale.services, ",")...)
			one.Play(ctx, sale)
			sale.verify(context.WithoutCancel(ctx)) // What was done before an early end is checked, too.
		},
	}
	return command.Main(ctx, args, stdout, stderr)
}
