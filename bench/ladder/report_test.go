package ladder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// The rate is the median of the rounds, CPU is per answer, and a ratio is of the rates of one round.
func TestReport_Finish(t *testing.T) {
	r := newReport(Config{Clients: []int{128}})
	for i, path := range []string{pathInProcess, pathBatched} {
		row := r.row(measurement{Work: workPoint, Path: path, Clients: 128})
		for _, rate := range []float64{100, 300, 200} {
			row.add(figure{rate: rate / float64(i+1), p99: rate, answers: 10, cpu: usage{"server": 100 * time.Microsecond}}, map[string]float64{"server": rate})
		}
	}
	r.finish()
	row := r.find(measurement{Work: workPoint, Path: pathInProcess, Clients: 128})
	if row.Rate != 200 || row.P99 != 200 || row.CPU["server"] != 10 || row.Resident["server"] != 300 {
		t.Errorf("got rate %v, p99 %v, cpu %v, rss %v; want 200, 200, 10, 300", row.Rate, row.P99, row.CPU, row.Resident)
	}
	if got := r.Ratios["point-read/batched/inprocess"]; got != 0.5 {
		t.Errorf("got ratio %v, want 0.5", got)
	}
}

// Scripts read the JSON: a ratio is a number, its range stands beside it, and each row has its figures under their names.
func TestReport_JSON_HasTheDocumentedShape(t *testing.T) {
	r := newReport(Config{Clients: []int{128}})
	for i, path := range []string{pathInProcess, pathBatched} {
		for _, rate := range []float64{4, 8, 6} {
			r.row(measurement{Work: workPoint, Path: path, Clients: 128}).add(figure{rate: rate / float64(i+1)}, nil)
		}
	}
	r.finish()
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine map[string]string
		Rows    []map[string]any
		Ratios  map[string]float64
		Ranges  map[string]map[string]float64 `json:"ratio_ranges"`
	}
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatalf("%v in %s", err, encoded)
	}
	const name = "point-read/batched/inprocess"
	if want := map[string]float64{"median": 0.5, "lowest": 0.5, "highest": 0.5}; got.Ratios[name] != 0.5 || !maps.Equal(got.Ranges[name], want) {
		t.Errorf("got ratios %v, ranges %v, want 0.5 and %v", got.Ratios, got.Ranges, want)
	}
	row := got.Rows[1]
	samples, _ := row["samples"].([]any)
	for field, want := range map[string]any{"work": "point-read", "path": "batched", "clients": 128.0, "rate": 3.0, "p50_ms": 0.0, "p99_ms": 0.0, "errors": 0.0} {
		if row[field] != want {
			t.Errorf("%s: got %v, want %v", field, row[field], want)
		}
	}
	if !slices.Equal(samples, []any{2.0, 4.0, 3.0}) || got.Machine["cores"] == "" {
		t.Errorf("got samples %v, machine %v, want the rate of each round, and the cores", samples, got.Machine)
	}
}

// A row with a wrong answer is invalid, is named, and makes no ratio.
func TestReport_WrongAnswerMakesRowInvalid(t *testing.T) {
	r := newReport(Config{Clients: []int{128}})
	r.row(measurement{Work: workPoint, Path: pathInProcess, Clients: 128}).add(figure{rate: 1}, nil)
	r.row(measurement{Work: workPoint, Path: pathBatched, Clients: 128}).add(figure{rate: 1, errors: 3, wrong: errors.New("status 500")}, nil)
	r.finish()
	var text bytes.Buffer
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if !r.invalid() || len(r.Ratios) != 0 || !strings.Contains(text.String(), "INVALID (3): status 500") {
		t.Errorf("got invalid %v, ratios %v, text %s", r.invalid(), r.Ratios, text.String())
	}
}

// Requests that were due and not sent are told. If they are more than 1 % the row has no p99, and its goal is missed.
func TestReport_Unsent_MarksTheRow(t *testing.T) {
	for name, test := range map[string]struct {
		unsent int64
		remark string
		met    bool
	}{
		"None": {0, "", true},
		"Few":  {10, "10 due, not sent", true},
		"Many": {11, "NO P99: 11 due, not sent", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReport(Config{Clients: []int{128}})
			row := r.row(measurement{Work: workPoint, Path: pathBatched, Clients: 128, Open: true})
			row.add(figure{rate: 1, p99: 1, answers: 500, unsent: test.unsent}, nil)
			row.add(figure{rate: 1, p99: 1, answers: 500}, nil)
			r.finish()
			if row.Unsent != test.unsent || row.remark() != test.remark || len(r.Goals) != 1 || r.Goals[0].Met != test.met {
				t.Errorf("got %d unsent, %q, goals %v, want %d, %q, one goal met: %v", row.Unsent, row.remark(), r.Goals, test.unsent, test.remark, test.met)
			}
			var text bytes.Buffer
			if err := r.Print(&text); err != nil || !strings.Contains(text.String(), test.remark) {
				t.Errorf("got %v and\n%s\nwant %q in it", err, text.String(), test.remark)
			}
		})
	}
}

// What the queue adds to a read is measured with the read cache off: an answer from the cache never meets the queue.
func TestReport_IdleLatency_IsWithoutTheCache(t *testing.T) {
	r := newReport(Config{Clients: []int{128, 1}})
	p50s := map[string]float64{pathInProcess: 1, pathBatched: 1.1, pathUncached: 1.5}
	for _, c := range allMeasurements(r.cfg.Clients) {
		if p50, ok := p50s[c.Path]; ok && c.Work == workPoint && c.Clients == 1 {
			r.row(c).add(figure{rate: 1, p50: p50}, nil)
		}
	}
	r.finish()
	if len(r.Goals) != 1 || r.Goals[0].Got != 0.5 || r.Goals[0].Met {
		t.Errorf("got %v, want 0.5 ms, missed", r.Goals)
	}
}

// Every row of the ladder is on a path that exists, and each work meets its alternatives.
func TestCells_AreOnKnownPaths(t *testing.T) {
	measurements := allMeasurements([]int{128, 1, 256})
	for _, c := range measurements {
		if _, ok := pathOf(c.Path); !ok {
			t.Errorf("%+v: no such path", c)
		}
	}
	if got, want := len(needed(measurements)), len(paths()); got != want {
		t.Errorf("got %d paths in use, want all %d", got, want)
	}
}

// Work that a slow machine cannot answer in time for many clients is measured with few, and still has its ratio and its bars.
func TestReport_CountDistinct_HasFewClients(t *testing.T) {
	for _, work := range []string{"count-distinct", "count-distinct-covered"} {
		r := newReport(Config{Clients: []int{128}})
		for _, c := range allMeasurements(r.cfg.Clients) {
			if c.Work == work {
				r.row(c).add(figure{rate: float64(c.Clients)}, nil)
			}
		}
		r.finish()
		if got := r.Ratios[work+"/batched/batched-uncached"]; got != 1 {
			t.Errorf("%s: got ratio %v, want 1", work, got)
		}
		if charts := r.rateSection().Charts; len(charts) != 1 || charts[0].Series[0].Points[0].Y != countClients {
			t.Errorf("%s: got charts %+v, want one with the rates of %d clients", work, charts, countClients)
		}
	}
}

// What the cache costs writes with two slaves has a goal.
func TestReport_WritesOfTwoSlaves_CacheOnAndOff(t *testing.T) {
	for rate, met := range map[float64]bool{95: true, 94: false} {
		r := newReport(Config{Clients: []int{128}})
		for _, c := range allMeasurements(r.cfg.Clients) {
			switch {
			case c.Work == workWrite && c.Path == "batched-2":
				r.row(c).add(figure{rate: rate}, nil)
			case c.Work == workWrite && c.Path == "batched-2-uncached":
				r.row(c).add(figure{rate: 100}, nil)
			}
		}
		r.finish()
		if len(r.Goals) != 1 || r.Goals[0].Want != 0.95 || r.Goals[0].Met != met {
			t.Errorf("%v of 100: got goals %v, want one of 0.95, met: %v", rate, r.Goals, met)
		}
	}
}

// rqlite is measured only if it is known. Without it its goals, and only they, are told to be not measured.
func TestReport_Rqlite_HasGoals(t *testing.T) {
	for name, test := range map[string]struct {
		rqlite string
		rates  map[string]float64
		want   []string
	}{
		"Unknown": {"", map[string]float64{"batched": 300}, []string{
			"point-read-hit/batched/rqlite >= 2: not measured, needs --rqlite", "write/batched/rqlite-3 >= 1.5: not measured, needs --rqlite",
		}},
		"Met":     {"rqlited", map[string]float64{"batched": 300, "rqlite": 150, "rqlite-3": 200}, []string{"point-read-hit/batched/rqlite >= 2: 2.00, met", "write/batched/rqlite-3 >= 1.5: 1.50, met"}},
		"Missed":  {"rqlited", map[string]float64{"batched": 300, "rqlite": 151, "rqlite-3": 201}, []string{"point-read-hit/batched/rqlite >= 2: 1.99, MISSED", "write/batched/rqlite-3 >= 1.5: 1.49, MISSED"}},
		"NoOther": {"rqlited", map[string]float64{"batched": 300}, nil},
		"NoOwn":   {"", map[string]float64{"batched-2": 300}, nil},
	} {
		cfg := Config{Clients: []int{128}, Paths: []string{"batched", "batched-2", "rqlite", "rqlite-3"}, Works: []string{workHit, workWrite}}
		cfg.Rqlite = test.rqlite
		r := newReport(cfg)
		for _, c := range cfg.measurements() {
			if test.rqlite == "" && NeedsRqlite(c.Path) {
				t.Errorf("%s: %v is measured", name, c)
			}
			if rate := test.rates[c.Path]; rate > 0 {
				r.row(c).add(figure{rate: rate}, nil)
			}
		}
		r.finish()
		var got []string
		for _, g := range r.Goals {
			got = append(got, g.String())
		}
		var page bytes.Buffer
		if err := r.WriteHTML(&page); err != nil || !slices.Equal(got, test.want) || strings.Contains(page.String(), "not measured") != (name == "Unknown") {
			t.Errorf("%s: got goals %q, %v, want %q, and in the page what is not measured", name, got, err, test.want)
		}
	}
}

// The open loop follows the closed one that says how much is half, so that both meet the same machine.
func TestCells_OpenLoopFollowsItsClosedOne(t *testing.T) {
	var last measurement
	opened := 0
	for _, c := range ofRound(allMeasurements([]int{128, 1}), 1, 0) {
		if !c.Open {
			last = c
			continue
		}
		if opened++; c.closed() != last {
			t.Errorf("%+v comes after %+v", c, last)
		}
	}
	if want := 10; opened != want {
		t.Errorf("got %d measurements of the open loop, want %d", opened, want)
	}
}

// Each round shuffles the paths of a work, reproducibly by seed; works and numbers of clients stay together.
func TestOfRound_Rounds_ShuffleThePathsOnly(t *testing.T) {
	all := Config{Clients: []int{128, 1}, Loops: []string{loopClosed, loopOpen}}
	one := all
	one.Works = []string{workPoint}
	for _, measurements := range [][]measurement{all.measurements(), one.measurements()} {
		planned, _ := blocks(measurements)
		firsts, paths := map[string]bool{}, map[string]bool{}
		for _, c := range measurements {
			if c.Clients == 128 && c.Work == workPoint {
				paths[c.Path] = true
			}
		}
		for round := range 20 {
			order := ofRound(measurements, 7, round)
			if !slices.Equal(order, ofRound(measurements, 7, round)) {
				t.Fatalf("round %d: the seed does not repeat the order", round)
			}
			names, first := blocks(order)
			if !slices.Equal(names, planned) || len(order) != len(measurements) {
				t.Fatalf("round %d: got %q, want the works as planned: %q", round, names, planned)
			}
			firsts[first] = true
		}
		if !maps.Equal(firsts, paths) {
			t.Errorf("got %v as first paths of 20 rounds, want each of %v", firsts, paths)
		}
		if slices.Equal(ofRound(measurements, 7, 0), ofRound(measurements, 8, 0)) {
			t.Error("another seed makes the same order")
		}
	}
}

// blocks returns the works and numbers of clients in their order, and the path that is measured first.
func blocks(measurements []measurement) (names []string, first string) {
	for _, c := range measurements {
		name := fmt.Sprintf("%s with %d clients", c.closed().Work, c.Clients)
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names, measurements[0].Path
}
