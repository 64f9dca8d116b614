package orchestratorapi_test

import (
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/orchestratorapi"
)

// BenchmarkAPI is a read over a connection: without a limit, with a limit that is never reached, and refused by a full
// lane. The processor's time includes what the client needs to send and to receive.
func BenchmarkAPI(b *testing.B) {
	answered := func(dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{Seq: 42, Body: []byte("[]"), Level: dbaas.LevelMiss}, nil
	}
	full := func(dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{}, dbaas.Refuse(dbaas.ReasonLaneFull, 0, "too many requests are waiting")
	}
	for _, c := range []struct {
		name, limit string
		read        func(dbaas.Read) (dbaas.ReadResult, error)
	}{{"Read", admission.None, answered}, {"LimitedRead", "1000000000:1000000000", answered}, {"Refusal", admission.None, full}} {
		b.Run(c.name, func(b *testing.B) {
			s := &system{cluster: dbaas.ClusterID{1}, read: c.read}
			settings := admission.Defaults()
			settings.Limits.Read = c.limit
			gate, err := admission.New(admission.Config{Log: slog.New(slog.DiscardHandler), Settings: settings, CallTimeout: 5 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			api := newAPI(s, func(cfg *orchestratorapi.Config) { cfg.Cache, cfg.Admission = &fakeCache{}, gate })
			server := httpapi.NewServer(httpapi.ServerConfig{Addr: "127.0.0.1:0", Handler: api, Log: slog.New(slog.DiscardHandler)})
			if err = server.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = server.Close(b.Context()) }()
			measure(b, s, server.URL()[len("http://"):])
		})
	}
}

// measure sends the same read over one connection.
func measure(b *testing.B, s *system, address string) {
	b.Helper()
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	request := fmt.Appendf(nil, "POST /api/v1/db/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(readBody), readBody)
	answer := make([]byte, 4096)
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		s.reads = s.reads[:0]
		if _, err = conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err = conn.Read(answer); err != nil { // it is small, and comes in one piece
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
