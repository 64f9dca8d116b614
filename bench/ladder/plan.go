package ladder

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// The loops.
const (
	loopClosed = "closed"
	loopOpen   = "open"
)

// measurement is what the ladder measures once per round: a figure of one path under one load.
type measurement struct {
	Work    string
	Path    string
	Clients int
	// Open means that requests are due at half the rate that the closed loop has just reached.
	Open bool
}

func (c measurement) String() string {
	text := fmt.Sprintf("%s on %s, %d clients", c.Work, c.Path, c.Clients)
	if c.Open {
		text += ", open loop"
	}
	return text
}

// countClients is the highest number of clients of a work that counts. Without the cache, more would exceed their deadline on a slow machine.
const countClients = 8

// closedAt returns the closed-loop measurement of a work on a path.
func closedAt(work, path string, clients int) measurement {
	if counts(work) {
		clients = min(clients, countClients)
	}
	return measurement{Work: work, Path: path, Clients: clients}
}

// closed returns the closed-loop measurement that an open one takes half the rate of.
func (c measurement) closed() measurement {
	c.Open = false
	if c.Work == workBesideSlow {
		c.Work = workPoint
	}
	return c
}

// everywhere returns the works, each with the paths on which it makes a difference. At the first number of clients all
// of them are measured.
func everywhere() map[string][]string {
	return map[string][]string{
		workPoint:    {pathHTTP, pathInProcess, pathBatched, pathUncached, pathEmbedded, pathEmbeddedUncached, pathUnbatched, pathGuarded, pathUnguarded, pathEmbeddedGuarded, pathEmbeddedUnguarded, pathTutorial, pathBestRPC, pathSQL, pathRqlite},
		workOnce:     {pathBatched, pathUncached, pathEmbedded, pathEmbeddedUncached, pathGuarded, pathUnguarded, pathEmbeddedGuarded, pathEmbeddedUnguarded},
		workCount:    {pathBatched, pathUncached, pathEmbedded, pathEmbeddedUncached},
		workCovered:  {pathBatched, pathUncached, pathEmbedded, pathEmbeddedUncached},
		workRange:    {pathInProcess, pathBatched, pathTwoSlaves, pathEmbedded, pathUnbatched, pathTutorial, pathBestRPC, pathSQL, pathRqlite},
		workHit:      {pathInProcess, pathBatched, pathEmbedded, pathSQL, pathRqlite},
		workRangeHit: {pathInProcess, pathBatched, pathEmbedded, pathSQL, pathRqlite},
		workWrite:    {pathInProcess, pathBatched, pathNoSlave, pathTwoSlaves, pathTwoUncached, pathPostgres, pathEmbedded, pathUnbatched, pathTutorial, pathBestRPC, pathSQL, pathRqlite, pathRqlite3},
		workMixed:    {pathInProcess, pathBatched, pathUncached, pathTwoSlaves, pathEmbedded, pathEmbeddedUncached, pathTutorial, pathBestRPC},
		workRide:     {pathBatched, pathEmbedded},
	}
}

// essential returns what is measured at the other numbers of clients, and in the open loop.
func essential() map[string][]string {
	return map[string][]string{
		workPoint: {pathInProcess, pathBatched, pathUncached, pathTutorial, pathBestRPC},
		workRange: {pathInProcess, pathBatched},
		workWrite: {pathInProcess, pathBatched, pathTutorial, pathBestRPC},
		workMixed: {pathInProcess, pathBatched},
		workRide:  {pathBatched},
	}
}

func workOrder() []string {
	return []string{workPoint, workHit, workOnce, workCount, workCovered, workRange, workRangeHit, workWrite, workMixed, workRide}
}

// allMeasurements returns the measurements in the order of the report. An open-loop measurement comes after the closed-loop one
// whose rate it needs. The paths of one work and number of clients are adjacent, so that compared measurements are close
// in time.
func allMeasurements(clients []int) []measurement {
	var out []measurement
	for i, n := range clients {
		which := essential()
		if i == 0 {
			which = everywhere()
		}
		for _, w := range workOrder() {
			for _, p := range which[w] {
				c := closedAt(w, p, n)
				out = append(out, c)
				if i == 0 {
					out = append(out, c.opened()...)
				}
			}
		}
	}
	return out
}

// opened returns the open-loop measurements at half the rate of c.
func (c measurement) opened() []measurement {
	if slices.Contains([]string{pathUncached, pathTutorial, pathBestRPC}, c.Path) || !slices.Contains(essential()[c.Work], c.Path) {
		return nil
	}
	c.Open = true
	out := []measurement{c}
	if c.Work == workPoint && c.Path == pathBatched {
		c.Work = workBesideSlow
		out = append(out, c)
	}
	return out
}

// measurements returns the selected measurements.
func (cfg Config) measurements() []measurement {
	return slices.DeleteFunc(allMeasurements(cfg.Clients), func(c measurement) bool {
		p, _ := pathOf(c.Path)
		return c.Open && !slices.Contains(cfg.Loops, loopOpen) || cfg.Paths == nil && p.onlyNamed() || p.postgres && cfg.Postgres == "" || p.sql && cfg.Rqlite == "" ||
			cfg.Works != nil && !slices.Contains(cfg.Works, c.closed().Work) || cfg.Paths != nil && !slices.Contains(cfg.Paths, c.Path)
	})
}

// needed returns the paths that measurements use, in the order of the ladder.
func needed(measurements []measurement) []path {
	var out []path
	for _, p := range paths() {
		if slices.ContainsFunc(measurements, func(c measurement) bool { return c.Path == p.name }) {
			out = append(out, p)
		}
	}
	return out
}

// ofRound returns the measurements in the order of a round. Works keep their order. The paths of each work and number of
// clients are shuffled by seed and round, so that no path always follows the same one. Open-loop measurements stay after
// the closed-loop one whose rate they need.
func ofRound(measurements []measurement, seed uint64, round int) []measurement {
	random := rand.New(rand.NewPCG(seed, uint64(round))) //nolint:gosec // an order, no secret; rounds are not negative.
	var out []measurement
	for len(measurements) > 0 {
		first := measurements[0].closed()
		n := slices.IndexFunc(measurements, func(c measurement) bool { return c.closed().Work != first.Work || c.Clients != first.Clients })
		if n < 0 {
			n = len(measurements)
		}
		var paths [][]measurement
		for i, c := range measurements[:n] {
			if i == 0 || c.Path != measurements[i-1].Path {
				paths = append(paths, nil)
			}
			paths[len(paths)-1] = append(paths[len(paths)-1], c)
		}
		random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		out = append(out, slices.Concat(paths...)...)
		measurements = measurements[n:]
	}
	return out
}
