package ledger

import "fmt"

// maxFindings is how many findings are reported in words; the others are only counted.
const maxFindings = 20

// Findings are violations found by a run.
type Findings struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"` // at most maxFindings
}

// Add adds a violation.
func (f *Findings) Add(format string, args ...any) {
	f.Count++
	if len(f.First) < maxFindings {
		f.First = append(f.First, fmt.Sprintf(format, args...))
	}
}

// Check is the result of comparing the system with everything that the run wrote.
type Check struct {
	OK bool `json:"ok"`
	// Acknowledged is how many writes of each kind were acknowledged, and so must be there.
	Acknowledged map[string]int `json:"acknowledged"`
	// UnknownThere and UnknownMissing count writes whose answers were lost. They may or may not be there, but not twice.
	UnknownThere   int `json:"unknown_there"`
	UnknownMissing int `json:"unknown_missing"`
	// Wrong are incorrect answers during the load.
	Wrong Findings `json:"wrong"`
	// Missing lists writes that were acknowledged and are not there; Doubled lists writes that are there more than once.
	Missing Findings `json:"missing"`
	Doubled Findings `json:"doubled"`
	// Unasked lists writes that are there although they were refused or never sent.
	Unasked Findings `json:"unasked"`
	// Problem says why the check could not be completed.
	Problem string `json:"problem,omitempty"`
}

// Finish sets OK.
func (c *Check) Finish() {
	c.OK = c.Problem == "" && c.Wrong.Count+c.Missing.Count+c.Doubled.Count+c.Unasked.Count == 0
}

// Note compares how often one item is there with its fate.
func (c *Check) Note(what, name string, f Fate, times int) {
	switch {
	case times > 1:
		c.Doubled.Add("%s %s is there %d times", what, name, times)
	case f == Applied && times == 0:
		c.Missing.Add("%s %s was acknowledged and is not there", what, name)
	case f == Refused && times > 0:
		c.Unasked.Add("%s %s was refused and is there", what, name)
	case f == Unknown && times > 0:
		c.UnknownThere++
	case f == Unknown:
		c.UnknownMissing++
	}
	if f == Applied {
		if c.Acknowledged == nil {
			c.Acknowledged = map[string]int{}
		}
		c.Acknowledged[what]++
	}
}
