package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"rideshare/internal/logkey"
	"rideshare/internal/tracing"
)

// LogConfig configures a logger.
type LogConfig struct {
	// Level is the lowest level that is logged: debug, info, warn or error, in upper or lower case, or "" for info.
	Level string
	// Text writes lines for people instead of JSON: local time, level, message, key=value.
	Text bool
	// Color colors the text.
	Color bool
}

// clock is the time of a line of text. The date is left out, since a person reads the line soon.
const clock = "15:04:05.000"

// NewLogger returns a logger that writes one line for each record to w, with the part's name: a JSON object, or text.
// If the level is unknown, the error lists the allowed ones.
func NewLogger(w io.Writer, c LogConfig, part string) (*slog.Logger, error) {
	lowest := slog.LevelInfo
	if c.Level != "" {
		if err := lowest.UnmarshalText([]byte(c.Level)); err != nil {
			return nil, fmt.Errorf("log level %q is none of debug, info, warn, error: %w", c.Level, err)
		}
	}
	var handler slog.Handler
	if c.Text {
		handler = tint.NewTextHandler(w, &tint.Options{Level: lowest, TimeFormat: clock, NoColor: !c.Color, ReplaceAttr: known})
	} else {
		handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: lowest, ReplaceAttr: readable})
	}
	return slog.New(traced{handler}).With(logkey.Part, part), nil
}

// traced adds the trace of the context to each record.
type traced struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if id := tracing.TraceID(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String(logkey.Trace, id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }

// readable writes durations with their unit, and leaves out what known leaves out.
func readable(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	}
	return known(groups, a)
}

// known leaves out the worker and the pid of a line that is not about a worker.
func known(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case logkey.Worker:
		if a.Value.Kind() == slog.KindString && a.Value.String() == "" {
			return slog.Attr{}
		}
	case logkey.PID:
		if a.Value.Kind() == slog.KindInt64 && a.Value.Int64() == 0 {
			return slog.Attr{}
		}
	}
	return a
}
