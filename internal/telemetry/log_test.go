package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
)

func newLogger(t *testing.T, c telemetry.LogConfig) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var buf bytes.Buffer
	log, err := telemetry.NewLogger(&buf, c, "users")
	if err != nil {
		t.Fatal(err)
	}
	return log, &buf
}

// A line is one JSON object with the part's name, and lines under the level are left out.
func TestNewLogger_LevelAndPart(t *testing.T) {
	for level, want := range map[string][]string{
		"": {"two", "three"}, "DEBUG": {"one", "two", "three"}, "info": {"two", "three"}, "Error": nil,
	} {
		log, buf := newLogger(t, telemetry.LogConfig{Level: level})
		log.DebugContext(t.Context(), "one")
		log.InfoContext(t.Context(), "two")
		log.WarnContext(t.Context(), "three")
		var got []string
		for line := range strings.Lines(buf.String()) {
			var entry struct{ Msg, Part string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Part != "users" {
				t.Errorf("level %q: line %s (%v)", level, line, err)
			}
			got = append(got, entry.Msg)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("level %q: got %v, want %v", level, got, want)
		}
	}
}

// An unknown level is an error that names the allowed ones.
func TestNewLogger_UnknownLevel(t *testing.T) {
	if _, err := telemetry.NewLogger(&bytes.Buffer{}, telemetry.LogConfig{Level: "loud"}, "x"); err == nil || !strings.Contains(err.Error(), "debug, info, warn, error") {
		t.Errorf("got %v, want an error with the allowed levels", err)
	}
}

// Text is one line of time, level, message and what the JSON has. Only colored text has escape sequences. In both
// forms a duration has its unit, and a worker or pid that is not known is left out.
func TestNewLogger_Text(t *testing.T) {
	write := func(c telemetry.LogConfig) string {
		log, buf := newLogger(t, c)
		log.WarnContext(t.Context(), "not yet", logkey.Took, 1500*time.Microsecond, logkey.Worker, "", logkey.PID, 0, logkey.Count, 0)
		return buf.String()
	}
	plain := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3} WRN not yet part=users took=1\.5ms count=0\n$`)
	if got := write(telemetry.LogConfig{Text: true}); !plain.MatchString(got) {
		t.Errorf("text: got %q", got)
	}
	if got := write(telemetry.LogConfig{Text: true, Color: true}); !strings.Contains(got, "\x1b[") || strings.Count(got, "\n") != 1 {
		t.Errorf("color: got %q", got)
	}
	if got, want := write(telemetry.LogConfig{}), `"msg":"not yet","part":"users","took":"1.5ms","count":0}`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("JSON: got %q, want %q at the end", got, want)
	}
}
