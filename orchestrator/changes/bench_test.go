package changes_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/rowlog"
	"rideshare/internal/wait"
	"rideshare/orchestrator/changes"
)

// emptied is a commit that empties a table with 32 MiB of rows, the most that the feed of a commit may have.
func emptied(textBytes int) dbaas.Entry {
	var rows []byte
	text, n := strings.Repeat("x", textBytes), uint64(0)
	for len(rows) < 32<<20-textBytes-64 {
		rows = packed.AppendInt(rows, int64(n))
		rows = packed.AppendValue(rows, dbaas.Integer(int64(n)))
		rows = packed.AppendValue(rows, dbaas.Text(text))
		n++
	}
	feed := packed.AppendBytes([]byte{rowlog.Emptied, 0}, "rowid")
	for _, part := range [][]byte{{0, 2}, packed.AppendBytes(nil, "a"), packed.AppendBytes(nil, "b"), {0}, packed.AppendUint(nil, n), rows} {
		feed = append(feed, part...)
	}
	return dbaas.Entry{Epoch: 1, Changes: []dbaas.Change{
		{Kind: dbaas.ChangeRows, Data: packed.AppendBytes([]byte{rowlog.Empty}, "t")},
		{Kind: dbaas.ChangeFeed, Data: feed},
	}}
}

// BenchmarkFeed_EmptiedTable is the time until all streams have sent a commit that empties a table with 32 MiB of rows, the
// memory that this takes, without the commit itself, and the size of the event.
func BenchmarkFeed_EmptiedTable(b *testing.B) {
	for _, rows := range []struct {
		name string
		text int
	}{{"small", 3}, {"100-bytes", 90}} {
		entry := emptied(rows.text)
		for _, streams := range []int{1, 16} {
			b.Run(fmt.Sprintf("rows=%s/streams=%d", rows.name, streams), func(b *testing.B) { benchEmptied(b, entry, streams) })
		}
	}
}

func benchEmptied(b *testing.B, entry dbaas.Entry, streams int) {
	b.Helper()
	p := newPersdb()
	f := changes.New(changes.Config{Log: slog.New(slog.DiscardHandler), Store: p})
	server := httptest.NewServer(f)
	defer server.Close()
	defer f.Close()
	var running sync.WaitGroup
	ctx, end := context.WithCancel(b.Context())
	defer running.Wait()
	defer end()
	running.Go(func() { _ = f.Run(ctx) })
	events := make(chan int, streams) // the size of each event that was received
	for range streams {
		consume(b, server.URL, events)
	}
	peak := watchHeap(ctx, &running)
	size := 0
	for b.Loop() {
		p.set(func() {
			entry.Cluster, entry.Seq = p.cluster, p.head().Seq+1
			p.entries = append(p.entries, entry)
		})
		for range streams {
			size = <-events
		}
	}
	b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
	b.ReportMetric(float64(size)/(1<<20), "event-MiB")
}

// consume reads a stream, and reports the size of each large event.
func consume(b *testing.B, url string, events chan<- int) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = resp.Body.Close() })
	go func() { // ends with the body
		buf := make([]byte, 64<<10)
		for size := 0; ; {
			n, err := resp.Body.Read(buf)
			if err != nil {
				return
			}
			if size += n; buf[n-1] != '\n' {
				continue
			}
			if size > 1<<20 { // not a position
				events <- size
			}
			size = 0
		}
	}()
}

// watchHeap watches the bytes of live and not yet freed objects until ctx ends. peak returns by how much they grew at most.
func watchHeap(ctx context.Context, running *sync.WaitGroup) (peak func() uint64) {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	first := read()
	most := first
	watched := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	running.Go(func() {
		defer close(watched)
		for ctx.Err() == nil {
			most = max(most, read())
			wait.For(ctx, time.Millisecond)
		}
	})
	return func() uint64 {
		stop()
		<-watched
		return most - first
	}
}
