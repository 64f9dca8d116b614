package reqlog_test

import (
	"log/slog"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/reqlog"
)

// Requests that someone may ask about (slow, or without a result) are at info. All others are at debug.
func TestLevel(t *testing.T) {
	for _, tc := range []struct {
		code dbaas.Code
		took time.Duration
		want slog.Level
	}{
		{dbaas.CodeOK, 0, slog.LevelDebug},
		{dbaas.CodeOK, reqlog.SlowAfter - 1, slog.LevelDebug},
		{dbaas.CodeOK, reqlog.SlowAfter, slog.LevelInfo},
		{dbaas.CodeConstraint, 0, slog.LevelDebug},
		{dbaas.CodeUnavailable, 0, slog.LevelDebug},
		{dbaas.CodeUnknown, 0, slog.LevelInfo},
		{dbaas.CodeTimeout, 0, slog.LevelInfo},
		{dbaas.CodeInternal, 0, slog.LevelInfo},
	} {
		if got := reqlog.Level(tc.code, tc.took); got != tc.want {
			t.Errorf("%q after %v: got %v, want %v", tc.code, tc.took, got, tc.want)
		}
	}
}
