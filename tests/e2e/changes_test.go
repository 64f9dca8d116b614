package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// A commit arrives with the position and the cluster id of its write. A consumer that resumes gets the commits that it
// missed. A position that does not exist is 410.
func TestChanges_ArriveAndResume(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "a INTEGER PRIMARY KEY, b TEXT")
	path := "/api/v1/changes?tables=" + strings.ToUpper(table)
	stream := sys.openStream(t, path, "")
	commit := func(sql, change string) event {
		t.Helper()
		a := sys.Post(t, sys.db("/db/execute"), sqlBody(sql)).expect(t, http.StatusOK, anyBody)
		e := stream.await(t, func(e event) bool { return e.kind == "commit" })
		if want := a.Header.Get("X-Cluster-Id") + ":" + a.Header.Get("X-Seq"); e.id != want || !strings.Contains(e.data, strings.ReplaceAll(change, "TABLE", table)) {
			t.Errorf("got %s %s, want %s with %s", e.id, e.data, want, change)
		}
		return e
	}
	first := commit("INSERT INTO "+table+" VALUES(1, 'x')", `"changes":[{"op":"insert","table":"TABLE","key":{"a":1},"after":{"a":1,"b":"x"}}]`)
	second := commit("UPDATE "+table+" SET b=NULL", `"changes":[{"op":"update","table":"TABLE","key":{"a":1},"before":{"b":"x"},"after":{"b":null}}]`)
	if got := sys.openStream(t, path, first.id).await(t, func(event) bool { return true }); got != second {
		t.Errorf("resumed: got %+v, want %+v", got, second)
	}
	cluster, _, _ := strings.Cut(second.id, ":")
	gone := sys.Get(t, sys.db("/api/v1/changes?after="+cluster+":999999999"))
	if gone.Status != http.StatusGone || !strings.Contains(gone.Body, `"code":"gone"`) || !strings.Contains(gone.Body, `"cluster_id":"`+cluster+`"`) {
		t.Errorf("got %d %s, want 410", gone.Status, gone.Body)
	}
}
