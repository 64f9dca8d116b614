//go:build !race

package system_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/system"
)

// writers is how many clients write at the same time.
const writers = 32

// BenchmarkWrites_Changes is the rate of writes with 64 consumers of the change feed, which run in the same process, and
// without. Compare the two of several runs in turn: -count.
func BenchmarkWrites_Changes(b *testing.B) {
	for _, streams := range []int{0, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			url := start(b, system.Cache{}).URLs().Orchestrator
			var consumed atomic.Int64
			for range streams {
				consume(b, url, &consumed)
			}
			var next atomic.Int64
			clients := make([]*caller, writers)
			for i := range clients {
				body := fmt.Sprintf(`{"query":"insert","table":"users","values":{"username":"user-%010d","password":"secret"}}`, 0)
				clients[i] = newCaller(b, url, "/api/v1/db/write", body)
			}
			before := cpu(b)
			b.ResetTimer()
			var running sync.WaitGroup
			for _, c := range clients {
				running.Go(func() {
					at := bytes.Index(c.request, []byte("user-0")) + len("user-")
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						copy(c.request[at:], fmt.Sprintf("%010d", n))
						if got := c.call(); !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
							b.Errorf("write: got %s", got)
							return
						}
					}
				})
			}
			running.Wait()
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			testenv.Eventually(b, 10*time.Second, func() error {
				if streams > 0 && consumed.Load() == 0 {
					return errors.New("no consumer got anything")
				}
				return nil
			})
		})
	}
}

// consume reads a stream of changes until the benchmark ends.
func consume(b *testing.B, url string, consumed *atomic.Int64) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url+"/api/v1/changes", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = resp.Body.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for n, err := resp.Body.Read(buf); err == nil; n, err = resp.Body.Read(buf) {
			consumed.Add(int64(n))
		}
	}()
}

// cpu returns the processor time that the process has used, which says more than the rate on a machine that is busy.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
