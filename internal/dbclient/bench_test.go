package dbclient_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"rideshare/internal/dbclient"
)

// BenchmarkClient is the cost of a call, with an orchestrator that answers at once, and a new position in each answer to a write.
func BenchmarkClient(b *testing.B) {
	var seq atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/db/execute" {
			seq.Add(1)
		}
		w.Header().Set("X-Seq", strconv.FormatInt(seq.Load(), 10))
		w.Header().Set("X-Cluster-Id", "08000000000000000000000000000000")
		_, _ = w.Write([]byte(`{"results":[{"columns":["a"],"types":["integer"],"values":[[1]]}]}`))
	}))
	b.Cleanup(server.Close)
	c, err := dbclient.New(dbclient.Config{URL: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Execute(b.Context(), dbclient.Options{}, dbclient.SQL("INSERT")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Query(b.Context(), dbclient.Options{}, dbclient.SQL("SELECT")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
