package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"rideshare/orchestrator/orchestratorapi"
)

// The colors of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// screen shows a status as text that fits 80 columns.
type screen struct {
	w     io.Writer
	color bool
	clear bool // each status replaces the last one
}

// show writes the status st as of now.
func (s screen) show(st status, now time.Time) error {
	var text bytes.Buffer
	health := s.paint(green, "ready")
	if !st.Ready {
		health = s.paint(red, "not ready: "+st.Missing)
	}
	c := st.Cluster
	_, _ = fmt.Fprintf(&text, "rideshare at %s, %s\n\n", st.URL, now.Format(time.TimeOnly)) // to memory.
	s.line(&text, "health", health)
	slaves := fmt.Sprintf("%d of %d wanted", c.ActualSlaves, c.DesiredSlaves)
	if c.StartsHeldBack > 0 {
		slaves += fmt.Sprintf(", %d held back by STARTS_PER_MINUTE", c.StartsHeldBack)
	}
	if c.ActualSlaves < c.DesiredSlaves {
		slaves = s.paint(yellow, slaves)
	}
	s.line(&text, "slaves", slaves)
	if len(c.Hosts) > 0 {
		s.line(&text, "hosts", s.hosts(c.Hosts))
	}
	position := fmt.Sprintf("%d in epoch %d", c.Head, c.Epoch)
	if c.HeadAgeMS > 0 {
		position = s.paint(yellow, position+", "+age(time.Duration(c.HeadAgeMS)*time.Millisecond)+" ago: persdb does not answer")
	}
	s.line(&text, "position", position)
	s.line(&text, "cluster", orDash(!c.Cluster.IsZero(), c.Cluster.String()))
	s.line(&text, "database", s.database(c))
	text.WriteByte('\n')
	s.members(&text, c, now)
	return s.write(text.String())
}

func (s screen) line(w io.Writer, name, value string) {
	_, _ = fmt.Fprintf(w, "%-9s %s\n", name, value) // to memory.
}

// database describes the size of the database.
func (s screen) database(c orchestratorapi.ClusterStatus) string {
	d := c.Database
	if d == nil {
		return "-"
	}
	text := humanize.IBytes(uint64(d.Tables))
	if d.Limit > 0 {
		text += " of " + humanize.IBytes(uint64(d.Limit))
	}
	text += fmt.Sprintf(", log %s, disk has %s free", humanize.IBytes(uint64(d.Log)), humanize.IBytes(uint64(d.DiskFree)))
	if d.Full || d.DiskFull {
		return s.paint(red, text+", full")
	}
	return text
}

// hosts names the hosts, with the state of those that are not present.
func (s screen) hosts(hosts []orchestratorapi.HostInfo) string {
	var names []string
	for _, h := range hosts {
		name := h.Name
		if h.State != "present" {
			name = s.paint(yellow, name+" ("+h.State+")")
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// members writes the table of workers, with their hosts if the launchers have names.
func (s screen) members(w io.Writer, c orchestratorapi.ClusterStatus, now time.Time) {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	members := c.Members
	host := func(text string) string {
		if len(c.Hosts) == 0 {
			return ""
		}
		return text + "\t"
	}
	_, _ = fmt.Fprintf(table, "PID\tROLE\tSTATE\tLAG\tREADS\tBUSY\tMEMORY\tUP\t%sWORKER\n", host("HOST")) // to memory.
	for _, m := range members {
		state := "serving"
		if !m.Ready {
			state = "starting"
		}
		reads, busy, memory := "-", "-", "-"
		if m.WorkerLoad != nil {
			reads, busy = fmt.Sprint(m.ReadsInFlight), fmt.Sprintf("%.0f%%", 100*m.Busy)
			memory = orDash(m.MemoryBytes > 0, humanize.IBytes(uint64(m.MemoryBytes)))
		}
		up := orDash(!m.StartedAt.IsZero(), age(now.Sub(m.StartedAt)))
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s%s\n", m.PID, m.Role, state, m.Lag, reads, busy, memory, up, host(m.Host), m.Container) // to memory.
	}
	_ = table.Flush() // to memory.
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		if i > 0 && !members[i-1].Ready {
			line = s.paint(yellow, line)
		}
		_, _ = fmt.Fprintln(w, line) // to memory.
	}
}

// failed shows why there is no status.
func (s screen) failed(err error) error {
	return s.write(s.paint(red, "no status, trying again") + "\n" + err.Error() + "\n")
}

// write writes one whole status. It replaces the previous status line by line, since clearing first would flicker.
func (s screen) write(text string) error {
	if s.clear {
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	}
	_, err := io.WriteString(s.w, text)
	return err
}

func (s screen) paint(color, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func orDash(known bool, text string) string {
	if !known {
		return "-"
	}
	return text
}

// age is a duration in its two largest units.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return max(0, d).Truncate(time.Second).String()
	}
}
