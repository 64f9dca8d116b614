package hosts

import (
	"log/slog"
	"time"
)

// NewPatient is New with another patience and listLimit.
func NewPatient(log *slog.Logger, all []Host, d time.Duration) *Launcher {
	return newLauncher(log, all, d, d)
}
