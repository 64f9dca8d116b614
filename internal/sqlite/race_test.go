//go:build race

package sqlite_test

import "time"

// The race detector makes the engine, which is Go code, some ten times slower.
const (
	slack = 20 * time.Second
	slow  = true
)
