package readcache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/orchestrator/readcache"
)

// The auditor finds a wrong answer and removes it, and does not blame a right one.
func TestCache_Audit_FindsAWrongAnswer(t *testing.T) {
	var wrong atomic.Bool
	var audit []context.Context
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		if !r.WantTags {
			audit = append(audit, ctx)
		}
		result, err := m.ask(ctx, r)
		if wrong.Load() && !r.WantTags {
			result.Body = []byte("another answer")
		}
		return result, err
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss)
	wantLevel(t, c, read(2), dbaas.LevelMiss)
	if audited, mismatches, err := c.Audit(t.Context(), 10); audited != 2 || mismatches != 0 || err != nil {
		t.Errorf("got %d audited, %d wrong, %v", audited, mismatches, err)
	}
	wrong.Store(true)
	if audited, mismatches, err := c.Audit(t.Context(), 10); audited != 2 || mismatches != 2 || err != nil {
		t.Errorf("got %d audited, %d wrong, %v", audited, mismatches, err)
	}
	wantLevel(t, c, read(1), dbaas.LevelMiss)
	for i, ctx := range audit { // an answer takes room at the dispatcher until then
		if ctx.Err() == nil {
			t.Errorf("the context of read %d has not ended", i)
		}
	}
}

// Audits come past every item, not only the most used ones.
func TestCache_Audit_FindsAColdWrongAnswer(t *testing.T) { synctest.Test(t, auditCold) }

func auditCold(t *testing.T) {
	const items, cold = 300, 123
	_, c := upToDate(t, readcache.Config{Ask: func(_ context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		body := []byte("an answer")
		if !r.WantTags && r.Statements[0].Args[0].Int == cold {
			body = []byte("another answer")
		}
		return dbaas.ReadResult{Seq: 1, Body: body, Tags: readtags.Tags{}.Add(readtags.KindTable, 1)}, nil
	}})
	for range 3 {
		for key := range items {
			r := read(0)
			r.Statements[0].Args[0].Int = int64(key)
			if key != cold || c.Status().Items < items {
				level(t, c, r)
			}
		}
	}
	found := 0
	for range 10 {
		_, mismatches, err := c.Audit(t.Context(), 100)
		if found += mismatches; err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Errorf("got %d wrong answers, want 1", found)
	}
}

// An audit with a deadline waits until then for a busy worker; without one, for a second.
func TestCache_Audit_WaitsUntilItsDeadline(t *testing.T) {
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		if !r.WantTags && time.Until(r.Deadline) < 10*time.Second { // the worker is busy for so long
			return dbaas.ReadResult{}, dbaas.Errorf(dbaas.CodeTimeout, "busy")
		}
		return m.ask(ctx, r)
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss)
	if audited, _, err := c.Audit(t.Context(), 10); audited != 0 || dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("without a deadline: got %d audited, %v, want the time-out", audited, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if audited, mismatches, err := c.Audit(ctx, 10); audited != 1 || mismatches != 0 || err != nil {
		t.Errorf("with a minute: got %d audited, %d wrong, %v, want 1 and none", audited, mismatches, err)
	}
}
