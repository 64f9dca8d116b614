package readcache

import (
	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
)

// Status is the state of a Cache.
type Status struct {
	// Serving reports whether the cache answers. It does not while entries of the log are missing.
	Serving bool `json:"serving"`
	// Applied is the position up to which the log was processed, and Lag how far behind the known head that is.
	Applied dbaas.Seq `json:"applied"`
	Lag     uint64    `json:"lag"`
	Items   int       `json:"items"`
	// Bytes is the size of the items, and Limit how large it may get.
	Bytes uint64 `json:"bytes"`
	Limit int64  `json:"limit"`
	// Reads counts the reads answered 200 by their level.
	Reads map[dbaas.CacheLevel]int64 `json:"reads"`
	// Invalid counts look-ups that found an answer that a change has made invalid, by the kind of the tag.
	Invalid map[string]int64 `json:"invalid"`
	Resets  int64            `json:"resets"`
	// Audited counts answers that were compared with a worker's, and Mismatches those that were wrong.
	Audited    int64 `json:"audited"`
	Mismatches int64 `json:"mismatches"`
}

// Status returns the current state.
func (c *Cache) Status() Status {
	s := Status{
		Limit: c.cfg.Bytes, Reads: map[dbaas.CacheLevel]int64{}, Invalid: map[string]int64{},
		Resets: c.stats.resets.Load(), Audited: c.stats.audited.Load(), Mismatches: c.stats.mismatches.Load(),
	}
	s.Applied, s.Lag, s.Serving = c.Position()
	s.Items, s.Bytes = c.Items()
	for i, level := range Levels() {
		s.Reads[level] = c.stats.levels[i].Load()
	}
	for kind := range readtags.Kinds {
		s.Invalid[readtags.Kind(kind).String()] = c.stats.invalidBy[kind].Load()
	}
	return s
}
