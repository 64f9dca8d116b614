//go:build !race

package sqlite_test

import "time"

const (
	// slack is how much later than its limit a statement may end.
	slack = time.Second
	slow  = false
)
