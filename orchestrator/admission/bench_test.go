package admission

import (
	"log/slog"
	"testing"
	"time"

	"rideshare/internal/dbaas"
)

// BenchmarkGate is a read on its way through all stages with the default settings, and a refusal.
func BenchmarkGate(b *testing.B) {
	gate := func(s Settings) *Gate {
		g, err := New(Config{
			Log: slog.New(slog.DiscardHandler), Settings: s, CallTimeout: testTimeout,
			Broker: func() bool { return true }, Master: func() (bool, time.Time) { return true, time.Time{} },
			Slaves: func() (int, time.Time) { return 1, time.Time{} },
		})
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	b.Run("Read", func(b *testing.B) {
		g, r := gate(Defaults()), &dbaas.Read{}
		b.ReportAllocs()
		for b.Loop() {
			guest, err := g.Arrive("ann", Read)
			if err != nil {
				b.Fatal(err)
			}
			ticket, err := g.EnterRead(r)
			if err != nil {
				b.Fatal(err)
			}
			g.Ended(ticket, nil)
			g.Leave(guest, nil)
		}
	})
	b.Run("Refusal", func(b *testing.B) {
		s := Defaults()
		s.Limits.Read = "0.001:1:0"
		g := gate(s)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Arrive("ann", Read); err == nil {
				b.Fatal("admitted")
			}
		}
	})
}
