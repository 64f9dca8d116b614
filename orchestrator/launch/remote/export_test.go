package remote

import "time"

// SetListTimeout changes listTimeout. It must be called before the first List.
func (l *Launcher) SetListTimeout(d time.Duration) { l.listTimeout = d }
