package load

import "fmt"

// maxFindings is how many findings are reported in words; the others are only counted.
const maxFindings = 20

// findings are violations found by the run.
type findings struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"` // at most maxFindings
}

func (f *findings) add(format string, args ...any) {
	f.Count++
	if len(f.First) < maxFindings {
		f.First = append(f.First, fmt.Sprintf(format, args...))
	}
}
