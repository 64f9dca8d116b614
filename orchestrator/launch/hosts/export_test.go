package hosts

import "time"

// SetPatience makes Look wait up to d for new lists. It must be called before the first Look.
func (l *Launcher) SetPatience(d time.Duration) { l.patience = d }
