package orchestratorapi_test

import (
	"net/http"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
)

// fakeCache records what the API tells the cache.
type fakeCache struct {
	levels  []dbaas.CacheLevel
	cleared int
}

func (f *fakeCache) Answered(level dbaas.CacheLevel) { f.levels = append(f.levels, level) }
func (f *fakeCache) Status() any                     { return map[string]int{"items": 3} }
func (f *fakeCache) Clear()                          { f.cleared++ }

// A read answered 200 has its level in X-Cache and is counted by it; other reads are not.
func TestReads_XCache_IsTheLevel(t *testing.T) {
	s, cache := &system{}, &fakeCache{}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Cache = cache })
	for _, level := range []dbaas.CacheLevel{dbaas.LevelHit, dbaas.LevelFlight, dbaas.LevelMiss, dbaas.LevelBypass} {
		s.read = func(dbaas.Read) (dbaas.ReadResult, error) {
			return dbaas.ReadResult{Seq: 42, Body: []byte("[]"), Level: level}, nil
		}
		for _, w := range []string{
			call(t, h, "GET", "/db/query?q=SELECT+1", "").Header().Get("X-Cache"),
			call(t, h, "POST", "/api/v1/db/read", `{"table":"t","columns":["a"]}`).Header().Get("X-Cache"),
		} {
			if w != string(level) {
				t.Errorf("got X-Cache %q, want %q", w, level)
			}
		}
	}
	s.read = func(dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{}, dbaas.ErrUnavailable }
	if w := call(t, h, "GET", "/db/query?q=SELECT+1", ""); w.Header().Get("X-Cache") != "" {
		t.Errorf("a refused read has X-Cache %q", w.Header().Get("X-Cache"))
	}
	if len(cache.levels) != 8 {
		t.Errorf("got %d reads counted, want 8", len(cache.levels))
	}
}

// Cache-Control says what the cache may do, and so does a bound on freshness.
func TestReads_CacheControl_ReachesTheRead(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for header, use := range map[string]dbaas.CacheUse{
		"": dbaas.CacheUseful, "max-age=0": dbaas.CacheUseful, "no-cache": dbaas.CacheRefresh, "No-Store": dbaas.CacheNone, "no-cache, no-store": dbaas.CacheNone,
	} {
		want(t, call(t, h, "GET", "/db/query?q=SELECT+1", "", "Cache-Control: "+header), http.StatusOK, "")
		if got := s.lastRead(t).Cache; got != use {
			t.Errorf("%q: got %v, want %v", header, got, use)
		}
	}
	want(t, call(t, h, "GET", "/db/query?q=SELECT+1&freshness=1s", ""), http.StatusOK, "")
	if got := s.lastRead(t).Cache; got != dbaas.CacheNone {
		t.Errorf("freshness: got %v", got)
	}
}

// The routes show and empty the cache, and exist only with a cache.
func TestCacheRoutes(t *testing.T) {
	cache := &fakeCache{}
	h := newAPI(&system{}, func(c *orchestratorapi.Config) { c.Cache = cache })
	want(t, call(t, h, "GET", "/api/v1/cache", ""), http.StatusOK, `{"items":3}`)
	want(t, call(t, h, "DELETE", "/api/v1/cache", ""), http.StatusOK, "")
	if cache.cleared != 1 {
		t.Errorf("cleared %d times", cache.cleared)
	}
	want(t, call(t, newAPI(&system{}), "GET", "/api/v1/cache", ""), http.StatusNotFound, "")
}
