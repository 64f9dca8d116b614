package tracing

import "time"

// SetFlushTime sets flushTime.
func SetFlushTime(d time.Duration) { flushTime = d }
