package docker

import "time"

// The errors of an Engine, for the fake one.
var (
	ErrNotFound     = errNotFound
	ErrConflict     = errConflict
	ErrMissingImage = errMissingImage
	ErrRefused      = errRefused
)

// AbandonedAfter is abandonedAfter.
const AbandonedAfter = abandonedAfter

// NameOf is the name of the container of a start.
func (l *Launcher) NameOf(startID string) string { return l.nameOf(startID) }

// SetInspectLimit changes inspectLimit. It must be called before the first List.
func (l *Launcher) SetInspectLimit(d time.Duration) { l.inspectLimit = d }
