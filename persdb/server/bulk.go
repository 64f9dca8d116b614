package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

const (
	// largeBytes is the size above which request bodies and log pages must pass a gate.
	largeBytes = 8 << 20
	// largePages is how many large pages of the log may be in memory at the same time: two, so that one stalled reader
	// does not block all others.
	largePages = 2
	// slowTime is how long the reader of a stream may take for slowBytes. It is longer than the 30 s that the orchestrator allows the
	// client to which it passes the stream on.
	slowTime  = time.Minute
	slowBytes = 64 << 10
	// snapshotLeast and snapshotRate bound the time for a whole snapshot, see snapshotTime.
	snapshotLeast = 10 * time.Minute
	snapshotRate  = 2 << 20 // bytes a second
)

// snapshotTime returns how long a reader may take for a whole snapshot of size bytes: at least 10 min, and as long as a
// reader of 2 MiB/s needs. It is bounded because the WAL grows until the reader has finished.
func snapshotTime(size int64) time.Duration {
	return max(snapshotLeast, time.Duration(size/snapshotRate+1)*time.Second)
}

// gate admits a limited number of large bodies at a time, in order of arrival. It always admits small ones.
type gate chan struct{}

func newGate(n int) gate { return make(gate, n) }

// take waits for a slot for size bytes; done releases it. A negative size means unknown and counts as large.
func (g gate) take(ctx context.Context, size int64) (done func(), err error) {
	if size >= 0 && size <= largeBytes {
		return func() {}, nil
	}
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "other large requests are in progress", ctx.Err())
	}
}

// stream sends a body of unknown length; limit is the reader's time for all of it. It throttles itself to part of a
// core: at full speed, stream and its reader would keep every core busy and delay commits.
func stream(ctx context.Context, w http.ResponseWriter, body io.Reader, limit time.Duration) error {
	end := time.Now().Add(limit)
	control := http.NewResponseController(w)
	buf := make([]byte, chunkBytes)
	for turns := wait.NewTurns(); ; {
		n, err := body.Read(buf)
		for piece := range slices.Chunk(buf[:n], slowBytes) {
			now := time.Now()
			if now.After(end) {
				return errSlow
			}
			_ = control.SetWriteDeadline(now.Add(slowTime)) // only test recorders do not support it.
			if _, sent := w.Write(piece); sent != nil {
				return sent
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !turns.Rest(ctx) {
			return context.Cause(ctx)
		}
	}
}

// sendParts sends a frame. It ignores errors of the connection, since the reader has gone then. A reader of a large
// frame is disconnected if it takes longer than chunkTime for one chunk, since the frame stays in memory until then.
func sendParts(w http.ResponseWriter, parts [][]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	control := http.NewResponseController(w)
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), chunkBytes)
			if size > chunkBytes {
				_ = control.SetWriteDeadline(time.Now().Add(chunkTime)) // only test recorders do not support it.
			}
			if _, err := w.Write(p[:n]); err != nil {
				return nil //nolint:nilerr // as above.
			}
			p = p[n:]
		}
	}
	return nil
}
