package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the result for a terminal.
func (r *Result) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, table := range r.tables() {
		_, _ = fmt.Fprintf(out, "%s\t\n", strings.Join(table.Head, "\t")) // the writer keeps an error until Flush.
		for _, row := range table.Rows {
			_, _ = fmt.Fprintf(out, "%s\t\n", strings.ReplaceAll(strings.Join(row, "\t"), " ms", "ms")) // as above. It fits 80 columns.
		}
		_, _ = fmt.Fprintln(out) // as above.
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	_, err := fmt.Fprint(w, r.words())
	if err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

// words returns the results that the tables do not show.
func (r *Result) words() string {
	var b strings.Builder
	if r.Ended {
		b.WriteString("ended early\n")
	}
	if r.Load.Unsent > 0 {
		fmt.Fprintf(&b, "%d requests were due and not sent: too many others waited for their answers\n", r.Load.Unsent)
	}
	most, last := r.slaves()
	fmt.Fprintf(&b, "slaves: %d at most, %d at the end\n", most, last)
	for i, d := range r.Decisions { // only decisions that changed the number
		if i > 0 && d.Wanted == r.Decisions[i-1].Wanted {
			continue
		}
		fmt.Fprintf(&b, "  after %v: %d slaves wanted: %s\n", d.At.Sub(r.Load.Start).Round(time.Second), d.Wanted, d.Why)
	}
	fmt.Fprintf(&b, "checked: %s\n", acknowledged(r.Check))
	if n := r.Check.UnknownThere + r.Check.UnknownMissing; n > 0 {
		fmt.Fprintf(&b, "unknown: %d writes without an answer: %d are there, %d are not\n", n, r.Check.UnknownThere, r.Check.UnknownMissing)
	}
	if r.Check.OK {
		b.WriteString("ok: everything acknowledged is there, once\n")
	}
	for _, line := range Verdicts(r.Check) {
		fmt.Fprintf(&b, "FAILED  %s\n", line)
	}
	return b.String()
}
