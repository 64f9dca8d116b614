package readcache_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/orchestrator/readcache"
)

// BenchmarkRead is what the cache adds to a read whose answer is never there, and what a hit costs.
func BenchmarkRead(b *testing.B) {
	for name, distinct := range map[string]int64{"Miss": 1 << 40, "Hit": 100} {
		b.Run(name, func(b *testing.B) {
			m := newModel()
			m.change(0)
			tags := readtags.Tags{}.Add(readtags.KindRow, 1).Add(readtags.KindWhole, 2)
			body := make([]byte, 64)
			c := readcache.New(readcache.Config{
				Log: slog.New(slog.DiscardHandler), Store: m, Seen: m.head, Cluster: func() dbaas.ClusterID { return cluster },
				Ask: func(context.Context, dbaas.Read) (dbaas.ReadResult, error) {
					return dbaas.ReadResult{Seq: 1, Tags: tags, Body: body}, nil
				},
			})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			go func() { _ = c.Run(ctx) }()
			c.Subscriber().Gap()
			for !c.Status().Serving {
				time.Sleep(time.Millisecond)
			}
			c.Looked(dbaas.Head{Cluster: cluster, Seq: 1}, time.Now().Add(time.Hour))
			args := []dbaas.Value{{Kind: dbaas.KindInteger}}
			r := dbaas.Read{Recent: true, Statements: []dbaas.Statement{{SQL: `SELECT "bench"."k" AS "k", "bench"."v" AS "v" FROM "bench" WHERE "bench"."k" = ?1`, Args: args}}}
			b.ReportAllocs()
			for b.Loop() {
				args[0].Int = (args[0].Int + 1) % distinct
				if _, err := c.Read(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
