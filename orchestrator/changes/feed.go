// Package changes streams the commits of persdb's log to consumers: the change feed. DESIGN.md describes it.
package changes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/rowlog"
	"rideshare/internal/wait"
)

const (
	defaultStreams = 64
	defaultStall   = 10 * time.Second
	// pageBytes bounds the page of the log that a stream holds, and the window that all streams share.
	pageBytes = 1 << 20
	// reads is how many streams that are behind the head may read the log at the same time.
	reads = 2
	// pollWait is how long a poll at the head waits for a commit.
	pollWait = 30 * time.Second
	// pace is the pause after each page at the head. The commits during the pause become one page, and one write to
	// each stream.
	pace = 100 * time.Millisecond
	// quiet is the time without an event after which a stream sends its position.
	quiet = 10 * time.Second
	// callTime is how long a call to persdb that does not wait for a commit may go without progress.
	callTime = 10 * time.Second
)

// Store is what the feed needs from persdb. *commitlog.Store and persdb's client implement it.
type Store interface {
	Head(ctx context.Context) (dbaas.Head, error)
	// Changes returns a page of the log after a position. See commitlog.Store.Changes.
	Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error)
}

// Config holds the settings of a Feed. Log and Store are required.
type Config struct {
	Log   *slog.Logger
	Store Store
	// Streams is how many streams may be open; 64 if zero.
	Streams int
	// Stall is how long a consumer may take nothing before it is cut off; 10 s if zero.
	Stall time.Duration
}

// The reasons for which the feed ends a stream.
const (
	cutStall       = "stall"       // the consumer took nothing for Config.Stall
	cutGone        = "gone"        // the log no longer has the next commit
	cutCredentials = "credentials" // the caller lost its role
	cutShutdown    = "shutdown"
)

// Status has the number of open streams, and counts of events and cuts since the start of the process.
type Status struct {
	Streams int
	Events  uint64
	Cuts    map[string]uint64 // by reason
}

// Feed serves the streams of one orchestrator. It is safe for concurrent use.
type Feed struct {
	cfg    Config
	slots  chan struct{} // one element for each open stream
	gate   chan struct{} // one element for each stream that is reading the log
	window window
	large  large
	ctx    context.Context // ends with Close
	end    context.CancelCauseFunc

	events atomic.Uint64

	mu   sync.Mutex // guards cuts
	cuts map[string]uint64
}

// New returns a Feed. Streams that are at the head get new commits while Run runs.
func New(cfg Config) *Feed {
	cfg.Streams, cfg.Stall = cmp.Or(cfg.Streams, defaultStreams), cmp.Or(cfg.Stall, defaultStall)
	f := &Feed{
		cfg: cfg, slots: make(chan struct{}, cfg.Streams), gate: make(chan struct{}, reads),
		cuts: map[string]uint64{cutStall: 0, cutGone: 0, cutCredentials: 0, cutShutdown: 0},
	}
	f.ctx, f.end = context.WithCancelCause(context.Background())
	return f
}

var errClosed = errors.New("the orchestrator shuts down")

// Close ends all streams, including those opened later.
func (f *Feed) Close() { f.end(errClosed) }

// Status returns the feed's numbers.
func (f *Feed) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{Streams: len(f.slots), Events: f.events.Load(), Cuts: maps.Clone(f.cuts)}
}

// ended counts and logs the end of a stream, unless the stream ended because its consumer left.
func (f *Feed) ended(s *stream, err error) {
	var reason string
	switch _, gone := errors.AsType[*goneError](err); {
	case gone:
		reason = cutGone
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = cutStall
	case errors.Is(err, httpapi.ErrRoleLost):
		reason = cutCredentials
	case errors.Is(err, errClosed):
		reason = cutShutdown
	default:
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts[reason]++
	f.cfg.Log.Info("stream of changes cut", logkey.Reason, reason, logkey.Seq, s.at, logkey.Error, err)
}

// head returns persdb's head.
func (f *Feed) head(ctx context.Context) (dbaas.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return f.cfg.Store.Head(ctx)
}

// read returns a page of the log, for a stream that is not at the head. If too many streams are reading, it waits. If the
// page is a single large commit, event is its event.
func (f *Feed) read(ctx context.Context, after dbaas.Seq) (page dbaas.Page, event *rowlog.Event, err error) {
	select {
	case f.gate <- struct{}{}:
		defer func() { <-f.gate }()
	case <-ctx.Done():
		return dbaas.Page{}, nil, context.Cause(ctx)
	}
	ctx, cancel := wait.UntilStalled(ctx, callTime) // a large commit may take long
	defer cancel()
	page, err = f.cfg.Store.Changes(ctx, after, 0, pageBytes)
	if err == nil && len(page.Entries) == 1 && isLarge(&page.Entries[0]) {
		event, _ = f.large.event(&page.Entries[0]) // after an error the stream renders it again
	}
	return page, event, err
}

// Run follows the head of the log for all streams with one long poll at a time, until ctx ends. It does not poll while
// there are no streams.
func (f *Feed) Run(ctx context.Context) error {
	var failures wait.Streak
	retry := wait.Backoff{First: 100 * time.Millisecond, Cap: 5 * time.Second, Jitter: 0.5}
	for {
		p, changed := f.window.place()
		if !p.wanted {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		last, err := f.poll(ctx, p)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if failures.Fail() {
				f.cfg.Log.WarnContext(ctx, "change feed does not follow the log", logkey.Error, err)
			}
			retry.Wait(ctx)
		default:
			failures.End()
			retry.Reset()
			if last != nil {
				wait.For(ctx, pace)
				runtime.KeepAlive(last) // the streams can find it until then
			}
		}
	}
}

// poll waits for the next page at the head, adds it to the window, and returns the page's last event, if any. If the log
// cannot be read on from the window's end, or is another log, poll restarts the window. Each stream then reads the log
// itself and finds the reason.
func (f *Feed) poll(ctx context.Context, p place) (last *rowlog.Event, err error) {
	page, err := f.cfg.Store.Changes(ctx, p.at, pollWait, pageBytes)
	switch code := dbaas.CodeOf(err); {
	case code == dbaas.CodeGone, code == dbaas.CodeDamaged:
		head, failed := f.head(ctx)
		if failed == nil {
			f.window.begin(p, head.Cluster, head.Seq)
		}
		return nil, failed
	case err != nil:
		return nil, err
	case page.Head.Cluster != p.cluster:
		f.window.begin(p, page.Head.Cluster, page.Head.Seq)
		return nil, nil //nolint:nilnil // there is no event for this window.
	}
	for i := range page.Entries {
		event, err := f.large.event(&page.Entries[i])
		if err != nil {
			f.window.begin(p, p.cluster, page.Entries[i].Seq)
			return nil, nil //nolint:nilerr,nilnil // the streams that need this commit get the error.
		}
		f.window.add(p, event)
		last = event
	}
	f.window.more.Notify()
	return last, nil
}
