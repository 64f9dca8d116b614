package ladder

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Row has the figures of one work on one path over all rounds.
type Row struct {
	Work    string  `json:"work"`
	Path    string  `json:"path"`
	Clients int     `json:"clients"`
	Loop    string  `json:"loop"`              // closed, or open: latency counts from the due time
	Offered float64 `json:"offered,omitempty"` // median of the rounds: half the rate of the closed loop in the same round
	Rate    float64 `json:"rate"`              // answers per second, median of the rounds
	P50     float64 `json:"p50_ms"`            // median of the rounds, as is P99
	P99     float64 `json:"p99_ms"`
	Errors  int64   `json:"errors"`
	// Unsent is how many requests of the open loop were due and not sent, because all clients waited for answers until the end of
	// a round. P50 and P99 do not have them.
	Unsent int64 `json:"unsent,omitempty"`
	// Invalid is the first wrong answer. If it is set, the other figures are meaningless.
	Invalid string    `json:"invalid,omitempty"`
	Samples []float64 `json:"samples"` // the rate of each round
	P99s    []float64 `json:"p99_ms_samples"`
	// CPU is the core time of each part per answer, in microseconds.
	CPU map[string]float64 `json:"cpu_us"`
	// Resident is the largest resident memory of one process of each part, in MiB.
	Resident map[string]float64 `json:"rss_mib"`

	// Lags are how far the last replica was behind in each round; empty where replicas do not report it.
	Lags []Lag `json:"lag,omitempty"`

	p50s    []float64
	offers  []float64
	answers int64
	cpu     usage
}

// Lag is how many entries the last replica was behind, before and after a measurement.
type Lag struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

// Report is the result of a run.
type Report struct {
	Machine map[string]string  `json:"machine"`
	Rows    []*Row             `json:"rows"`
	Ratios  map[string]float64 `json:"ratios"`       // medians, by work/path/other path, at the first number of clients
	Ranges  map[string]Ratio   `json:"ratio_ranges"` // of each of Ratios
	Goals   []Goal             `json:"goals"`
	Seed    uint64             `json:"seed"` // of the order of the paths

	cfg Config
}

func newReport(cfg Config) *Report {
	return &Report{Machine: machine(), Ratios: map[string]float64{}, Ranges: map[string]Ratio{}, Seed: cfg.Seed, cfg: cfg}
}

func (c measurement) mode() string {
	if c.Open {
		return loopOpen
	}
	return loopClosed
}

// row returns the row of a measurement and creates it on the first call.
func (r *Report) row(c measurement) *Row {
	if row := r.find(c); row != nil {
		return row
	}
	row := &Row{Work: c.Work, Path: c.Path, Clients: c.Clients, Loop: c.mode(), CPU: map[string]float64{}, Resident: map[string]float64{}, cpu: usage{}}
	r.Rows = append(r.Rows, row)
	return row
}

func (row *Row) add(f figure, resident map[string]float64) {
	row.Samples = append(row.Samples, f.rate)
	row.p50s = append(row.p50s, f.p50)
	row.P99s = append(row.P99s, f.p99)
	row.Errors += f.errors
	row.Unsent += f.unsent
	if f.wrong != nil && row.Invalid == "" {
		row.Invalid = f.wrong.Error()
	}
	if f.lag != nil {
		row.Lags = append(row.Lags, *f.lag)
	}
	row.answers += f.answers
	row.cpu.add(f.cpu)
	for part, mib := range resident {
		row.Resident[part] = max(row.Resident[part], mib)
	}
}

// finish computes the figures over all rounds.
func (r *Report) finish() {
	for _, row := range r.Rows {
		row.Rate, row.P50, row.P99, row.Offered = median(row.Samples), median(row.p50s), median(row.P99s), median(row.offers)
		for part, t := range row.cpu {
			if row.answers > 0 {
				row.CPU[part] = float64(t.Microseconds()) / float64(row.answers)
			}
		}
	}
	point := measurement{Work: workPoint, Path: pathBatched, Clients: r.cfg.Clients[0]}
	for _, w := range workOrder() {
		for _, pair := range [][2]string{
			{pathInProcess, pathHTTP},
			{pathBatched, pathInProcess},
			{pathNoSlave, pathInProcess},
			{pathTwoSlaves, pathInProcess},
			{pathEmbedded, pathInProcess},
			{pathBatched, pathUncached},
			{pathTwoSlaves, pathTwoUncached},
			{pathEmbedded, pathEmbeddedUncached},
			{pathBatched, pathUnbatched},
			{pathPostgres, pathBatched},
			{pathGuarded, pathUnguarded},
			{pathEmbeddedGuarded, pathEmbeddedUnguarded},
			{pathBatched, pathTutorial},
			{pathBatched, pathBestRPC},
			{pathTutorial, pathInProcess},
			{pathBestRPC, pathInProcess},
			{pathBatched, pathRqlite},
			{pathSQL, pathRqlite},
			{pathRqlite, pathInProcess},
			{pathBatched, pathRqlite3},
			{pathSQL, pathRqlite3},
		} {
			r.ratio(w+"/"+pair[0]+"/"+pair[1], closedAt(w, pair[0], point.Clients), closedAt(w, pair[1], point.Clients))
		}
	}
	r.ratio("ride-get/batched/point-read", measurement{Work: workRide, Path: pathBatched, Clients: point.Clients}, point)
	r.addGoals()
}

func (r *Report) ratio(name string, a, b measurement) {
	top, bottom := r.find(a), r.find(b)
	if top == nil || bottom == nil || top.Invalid+bottom.Invalid != "" {
		return
	}
	if ratio, ok := ratioOf(top.Samples, bottom.Samples); ok {
		r.Ratios[name], r.Ranges[name] = ratio.Median, ratio
	}
}

func (r *Report) find(c measurement) *Row {
	for _, row := range r.Rows {
		if row.Work == c.Work && row.Path == c.Path && row.Clients == c.Clients && row.Loop == c.mode() {
			return row
		}
	}
	return nil
}

func (r *Report) invalid() bool {
	return slices.ContainsFunc(r.Rows, func(row *Row) bool { return row.Invalid != "" })
}

func median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Print writes the report as tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "work\tpath\tclients\tloop\trate/s\trange\tp50 ms\tp99 ms\tlag\tcpu us an answer\t") // Flush returns the error.
	for _, row := range r.Rows {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", strings.Join(row.columns(), "\t"), row.remark()) // Flush returns the error.
	}
	_, _ = fmt.Fprintln(t, "\nratio at the first number of clients\t\trange\t") // Flush returns the error.
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		_, _ = fmt.Fprintf(t, "%s\t%.2f\t%s\t\n", name, r.Ratios[name], r.Ranges[name].rangeText()) // Flush returns the error.
	}
	_, _ = fmt.Fprintf(t, "\nlag: entries by which the slowest replica was behind, before/after, the largest of all rounds; order of the paths: seed %d\n", r.Seed) // Flush returns the error.
	_, _ = fmt.Fprintln(t, "\ngoals")                                                                                                                               // Flush returns the error.
	for _, g := range r.Goals {
		_, _ = fmt.Fprintln(t, g) // Flush returns the error.
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

// columns returns the figures in the order of the tables.
func (row *Row) columns() []string {
	return []string{
		row.Work, row.Path, strconv.Itoa(row.Clients), row.Loop, fmt.Sprintf("%.0f", row.Rate), row.rangeText(),
		fmt.Sprintf("%.2f", row.P50), fmt.Sprintf("%.2f", row.P99), row.lagText(), row.cpuText(),
	}
}

// lagText formats the largest lag of the rounds.
func (row *Row) lagText() string {
	if len(row.Lags) == 0 {
		return ""
	}
	var most Lag
	for _, l := range row.Lags {
		most = Lag{max(most.Before, l.Before), max(most.After, l.After)}
	}
	return fmt.Sprintf("%d/%d", most.Before, most.After)
}

func (row *Row) cpuText() string { return partsText(row.CPU, "%s %.1f") }

func partsText(figures map[string]float64, format string) string {
	var parts []string
	for _, part := range slices.Sorted(maps.Keys(figures)) {
		parts = append(parts, fmt.Sprintf(format, part, figures[part]))
	}
	return strings.Join(parts, " ")
}

// remark says why figures of the row are meaningless or lack requests, or nothing.
func (row *Row) remark() string {
	switch {
	case row.Invalid != "":
		return fmt.Sprintf("INVALID (%d): %.200s", row.Errors, row.Invalid)
	case row.noP99():
		return fmt.Sprintf("NO P99: %d due, not sent", row.Unsent)
	case row.Unsent > 0:
		return fmt.Sprintf("%d due, not sent", row.Unsent)
	default:
		return ""
	}
}

// noP99 reports whether more than 1 % of the requests that were due were not sent, so that P99 is not theirs.
func (row *Row) noP99() bool { return 100*row.Unsent > row.answers+row.Unsent }

func machine() map[string]string {
	m := map[string]string{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cores": fmt.Sprint(runtime.GOMAXPROCS(0)), "go": runtime.Version(),
		"at": time.Now().UTC().Format(time.RFC3339),
	}
	if cpu, err := os.Open("/proc/cpuinfo"); err == nil {
		defer func() { _ = cpu.Close() }() // read only.
		lines := bufio.NewScanner(cpu)
		for lines.Scan() {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				m["cpu"] = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}
