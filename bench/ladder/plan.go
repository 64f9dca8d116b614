package ladder

import (
	"math/rand/v2"
	"slices"
)

// The loops.
const (
	loopClosed = "closed"
	loopOpen   = "open"
)

// cell is one measurement of the ladder, made once per round.
type cell struct {
	Work    string
	Path    string
	Clients int
	// Open means that requests are due at half the rate that the closed loop has just reached.
	Open bool
}

// closed returns the closed-loop measurement that an open one takes half the rate of.
func (c cell) closed() cell {
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
		workPoint: {pathHTTP, pathInProcess, pathBatched, pathEmbedded, pathUnbatched, pathTutorial, pathBestRPC},
		workRange: {pathInProcess, pathBatched, pathTwoSlaves, pathEmbedded, pathUnbatched, pathTutorial, pathBestRPC},
		workWrite: {pathInProcess, pathBatched, pathNoSlave, pathTwoSlaves, pathEmbedded, pathUnbatched, pathTutorial, pathBestRPC},
		workMixed: {pathInProcess, pathBatched, pathTwoSlaves, pathEmbedded, pathTutorial, pathBestRPC},
		workRide:  {pathBatched, pathEmbedded},
	}
}

// essential returns what is measured at the other numbers of clients, and in the open loop.
func essential() map[string][]string {
	return map[string][]string{
		workPoint: {pathInProcess, pathBatched, pathTutorial, pathBestRPC},
		workRange: {pathInProcess, pathBatched},
		workWrite: {pathInProcess, pathBatched, pathTutorial, pathBestRPC},
		workMixed: {pathInProcess, pathBatched},
		workRide:  {pathBatched},
	}
}

func workOrder() []string { return []string{workPoint, workRange, workWrite, workMixed, workRide} }

// allCells returns the measurements in the order of the report. An open-loop measurement comes after the closed-loop one
// whose rate it needs. The paths of one work and number of clients are adjacent, so that compared measurements are close
// in time.
func allCells(clients []int) []cell {
	var out []cell
	for i, n := range clients {
		which := essential()
		if i == 0 {
			which = everywhere()
		}
		for _, w := range workOrder() {
			for _, p := range which[w] {
				c := cell{Work: w, Path: p, Clients: n}
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
func (c cell) opened() []cell {
	if c.Path == pathTutorial || c.Path == pathBestRPC || !slices.Contains(essential()[c.Work], c.Path) {
		return nil
	}
	c.Open = true
	out := []cell{c}
	if c.Work == workPoint && c.Path == pathBatched {
		c.Work = workBesideSlow
		out = append(out, c)
	}
	return out
}

// cells returns the selected measurements.
func (cfg Config) cells() []cell {
	return slices.DeleteFunc(allCells(cfg.Clients), func(c cell) bool {
		return c.Open && !slices.Contains(cfg.Loops, loopOpen) ||
			cfg.Works != nil && !slices.Contains(cfg.Works, c.closed().Work) || cfg.Paths != nil && !slices.Contains(cfg.Paths, c.Path)
	})
}

// needed returns the paths that cells use, in the order of the ladder.
func needed(cells []cell) []path {
	var out []path
	for _, p := range paths() {
		if slices.ContainsFunc(cells, func(c cell) bool { return c.Path == p.name }) {
			out = append(out, p)
		}
	}
	return out
}

// ofRound returns the measurements in the order of a round. Works keep their order. The paths of each work and number of
// clients are shuffled by seed and round, so that no path always follows the same one. Open-loop measurements stay after
// the closed-loop one whose rate they need.
func ofRound(cells []cell, seed uint64, round int) []cell {
	random := rand.New(rand.NewPCG(seed, uint64(round))) //nolint:gosec // an order, no secret; rounds are not negative.
	var out []cell
	for len(cells) > 0 {
		first := cells[0].closed()
		n := slices.IndexFunc(cells, func(c cell) bool { return c.closed().Work != first.Work || c.Clients != first.Clients })
		if n < 0 {
			n = len(cells)
		}
		var paths [][]cell
		for i, c := range cells[:n] {
			if i == 0 || c.Path != cells[i-1].Path {
				paths = append(paths, nil)
			}
			paths[len(paths)-1] = append(paths[len(paths)-1], c)
		}
		random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		out = append(out, slices.Concat(paths...)...)
		cells = cells[n:]
	}
	return out
}
