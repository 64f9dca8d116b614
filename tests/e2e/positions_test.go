package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// A write returns its position, and a read with that position sees the write, on every service and in both forms of
// statements.
func TestPositions_ReadWithTheWritesPosition_SeesTheWrite(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	var last uint64
	for i := range 30 {
		name := newName("ryw")
		put := sys.PutUser(t, name)
		read := sys.Get(t, sys.userURL(name), "X-Min-Seq", put.Header.Get("X-Seq")).expect(t, http.StatusOK, anyBody)
		if put.seq(t) <= last || read.seq(t) < put.seq(t) {
			t.Errorf("positions: write %d after %d, read at %d; want them to grow", put.seq(t), last, read.seq(t))
		}
		write := sys.Post(t, sys.db("/api/v1/db/write"), fmt.Sprintf(`{"query":"insert","table":%q,"values":{"id":%d}}`, table, i))
		last = write.expect(t, http.StatusOK, "{}").seq(t)
		at := strconv.FormatUint(last, 10)
		count := sys.Post(t, sys.db("/db/query?level=none"), sqlBody("SELECT count(*) FROM "+table), "X-Min-Seq", at)
		if got := decode[sqlResults](t, count).Results; len(got) != 1 || string(got[0].Values[0][0]) != strconv.Itoa(i+1) {
			t.Errorf("read at %s: got %s, want %d rows", at, count.Body, i+1)
		}
		if count.seq(t) < last {
			t.Errorf("read asked for %d: answered at %d", last, count.seq(t))
		}
	}
}

// A position that no worker has reached is 503 with Retry-After, within the deadline.
func TestPositions_FarFuture_503WithinTheDeadline(t *testing.T) {
	sys := start(t, setup{env: []string{"CALL_TIMEOUT=4s"}}) // enough for the calls that must succeed
	sys.PutUser(t, "ann")
	for _, x := range []exchange{
		{method: "POST", url: sys.db("/api/v1/db/read"), body: `{"table":"users","columns":["username"]}`},
		{method: "POST", url: sys.db("/db/query?level=none"), body: `["SELECT 1"]`},
		{method: "GET", url: sys.usersURL()},
		{method: "GET", url: sys.userURL("ann")},
		{method: "GET", url: sys.ridesURL() + "?source=1&destination=2"},
	} {
		began := time.Now()
		a := sys.Call(t, x.method, x.url, x.body, "X-Min-Seq", "1000000000000")
		a.expect(t, http.StatusServiceUnavailable, anyBody)
		if a.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: 503 without Retry-After", x.method, x.url)
		}
		if took := time.Since(began); took > callLimit/2 {
			t.Errorf("%s %s: answered after %v with a deadline of 4 s", x.method, x.url, took)
		}
	}
	sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, `["ann"]`)
}

// A malformed position is 400.
func TestPositions_NoNumber_Refused(t *testing.T) {
	sys := shared(t)
	for _, x := range []exchange{
		{method: "POST", url: sys.db("/api/v1/db/read"), body: `{"table":"users","columns":["count(*)"]}`},
		{method: "POST", url: sys.db("/db/query"), body: `["SELECT 1"]`},
		{method: "GET", url: sys.usersURL()},
		{method: "GET", url: sys.ridesURL() + "?source=1&destination=2"},
	} {
		for _, position := range []string{"abc", "-1", "1.5", "0x1", "99999999999999999999999"} {
			a := sys.Call(t, x.method, x.url, x.body, "X-Min-Seq", position)
			if err := a.check(http.StatusBadRequest, anyBody); err != nil {
				t.Errorf("%s %s, X-Min-Seq %q: %v", x.method, x.url, position, err)
			}
		}
	}
}
