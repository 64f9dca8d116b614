package load

import "fmt"

// maxFindings is how many findings are told in words; the rest is counted.
const maxFindings = 20

// findings are things that must not be.
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
