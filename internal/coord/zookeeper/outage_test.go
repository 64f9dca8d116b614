package zookeeper

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An outage is logged at its start, each minute, and at its end, with the address and the reason.
func TestOutage_IsRepeatedSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := &outage{log: slog.New(slog.NewTextHandler(&log, nil)), giveUp: func(err error) { t.Errorf("given up: %v", err) }}
		for range 3 * 60 {
			o.failed("zoo:2181", errors.New("connection refused"))
			time.Sleep(time.Second) // of the bubble
		}
		if got := strings.Count(log.String(), "level=WARN msg=\"coordinator not reached, trying again\" addr=zoo:2181 error=\"connection refused\""); got != 3 {
			t.Errorf("got %d warnings in 3 minutes, want 3:\n%s", got, &log)
		}
		if why := o.reason(); why == nil || why.Error() != "zoo:2181: connection refused" {
			t.Errorf("got reason %v", why)
		}
		o.over()
		o.over()
		if got := strings.Count(log.String(), "coordinator reached"); got != 1 || o.reason() != nil {
			t.Errorf("got %d lines of the end and reason %v, want one line and no reason", got, o.reason())
		}
	})
}

// Servers without names are given up, unless there is another reason in between, or one of them was reached before.
func TestOutage_NoSuchHost_IsGivenUp(t *testing.T) {
	t.Parallel()
	unknown := &net.DNSError{Err: "no such host", Name: "zoo", IsNotFound: true}
	for name, tt := range map[string]struct {
		before  func(*outage)
		between error
		want    bool
	}{
		"Never":       {func(*outage) {}, unknown, true},
		"OtherReason": {func(*outage) {}, errors.New("connection refused"), false},
		"WasReached":  {(*outage).over, unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var gaveUp error
				o := &outage{log: slog.New(slog.DiscardHandler), giveUp: func(err error) { gaveUp = err }}
				tt.before(o)
				for began := time.Now(); time.Since(began) < unknownFor; time.Sleep(time.Second) {
					o.failed("zoo:2181", unknown)
					o.failed("zoo:2181", tt.between)
				}
				if gaveUp != nil {
					t.Fatalf("given up before %v: %v", unknownFor, gaveUp)
				}
				o.failed("zoo:2181", unknown)
				if got := gaveUp != nil; got != tt.want || got && !strings.Contains(gaveUp.Error(), "zoo:2181") {
					t.Errorf("got %v, want given up: %v", gaveUp, tt.want)
				}
			})
		})
	}
}
