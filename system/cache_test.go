package system_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/invariants"
	"rideshare/orchestrator/readcache"
)

// decode checks that an answer is 200, and decodes its JSON.
func decode(t *testing.T, answer apitest.Answer, to any) http.Header {
	t.Helper()
	if answer.Status != http.StatusOK {
		t.Fatalf("got %d %s", answer.Status, answer.Body)
	}
	if to != nil {
		if err := json.Unmarshal([]byte(answer.Body), to); err != nil {
			t.Fatal(err)
		}
	}
	return answer.Header
}

// Through the whole system: the second read is a hit, a write of the row makes the next read a miss with the new answer, a
// write of another row does not, the levels add up, and the check finds every cached answer right.
func TestCache_WholeSystem(t *testing.T) {
	url := startSystem(t).URLs().Orchestrator
	write := func(name, password string) (seq string) {
		return decode(t, apitest.Do(t, "POST", url+"/db/execute", fmt.Sprintf(`[["INSERT INTO users VALUES(?,?) ON CONFLICT DO UPDATE SET password=excluded.password",%q,%q]]`, name, password)), nil).Get("X-Seq")
	}
	reads := 0
	read := func(name string, header ...string) (level, password string) {
		var rows []struct{ Password string }
		h := decode(t, apitest.Do(t, "POST", url+"/api/v1/db/read", fmt.Sprintf(`{"table":"users","columns":["password"],"condition":{"username":%q}}`, name), header...), &rows)
		if reads++; len(rows) > 0 {
			password = rows[0].Password
		}
		return h.Get("X-Cache"), password
	}
	// The cache answers once it has processed the write, which happens soon, but not at once.
	hit := func(name, want string, header ...string) {
		t.Helper()
		testenv.Eventually(t, time.Minute, func() error {
			level, got := read(name, header...)
			if got != want {
				t.Fatalf("read %s: got %s %q, want %q", name, level, got, want)
			}
			if level != "HIT" {
				return fmt.Errorf("read %s: got %s, want a hit", name, level)
			}
			return nil
		})
	}
	write("ann", "1")
	if level, got := read("ann", "Cache-Control", "no-store"); level != "BYPASS" || got != "1" {
		t.Errorf("got %s %q, want it past the cache", level, got)
	}
	hit("ann", "1")
	seq := write("bob", "1")
	hit("ann", "1")
	hit("ann", "1", "X-Min-Seq", seq)
	for i := range 100 {
		want := strconv.Itoa(i)
		write("ann", want)
		if level, got := read("ann"); got != want {
			t.Errorf("%s after write %s: got %q", level, want, got)
		}
	}
	var status readcache.Status
	decode(t, apitest.Do(t, "GET", url+"/api/v1/cache", ""), &status)
	var sum int64
	for _, n := range status.Reads {
		sum += n
	}
	if sum != int64(reads) || status.Reads[dbaas.LevelHit] == 0 || status.Items == 0 || !status.Serving {
		t.Errorf("%d reads: got %+v", reads, status)
	}
	hit("ann", "99")
	testenv.Eventually(t, time.Minute, func() error {
		var report invariants.Report
		decode(t, apitest.Do(t, "POST", url+"/api/v1/check", ""), &report)
		for _, i := range report.Invariants {
			if i.Name == invariants.CacheEqual && !strings.HasPrefix(i.Detail, "not compared: ") {
				if !i.OK {
					t.Errorf("got %+v, want it to hold", i)
				}
				return nil
			}
		}
		return fmt.Errorf("got %+v, want the cache compared", report.Invariants)
	})
	decode(t, apitest.Do(t, "DELETE", url+"/api/v1/cache", ""), nil)
}
