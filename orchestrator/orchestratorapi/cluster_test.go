package orchestratorapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
)

// A crash answers with the pid of the killed worker, 400 if there is none, and
// ignores its body.
func TestCrash_AnswersThePID(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, path := range []string{"/api/v1/crash/master", "/api/v1/crash/slave"} {
		s.crash = func() (int, bool, error) { return 1234, true, nil }
		want(t, call(t, h, "POST", path, ""), http.StatusOK, "[1234]")
		want(t, call(t, h, "POST", path, "nonsense"), http.StatusOK, "[1234]")
		s.crash = func() (int, bool, error) { return 0, false, nil }
		want(t, call(t, h, "POST", path, ""), http.StatusBadRequest, "{}")
		s.crash = func() (int, bool, error) { return 0, false, dbaas.ErrUnavailable }
		want(t, call(t, h, "POST", path, ""), http.StatusServiceUnavailable, "{}")
	}
}

// A crash and a hand-over carry what the caller saw. What was seen and has passed is 409.
func TestCrash_CarriesWhatWasSeen(t *testing.T) {
	s := &system{crash: func() (int, bool, error) { return 1234, true, nil }}
	s.handover = func(int) (orchestratorapi.HandedOver, error) { return orchestratorapi.HandedOver{}, nil }
	h := newAPI(s)
	for target, seen := range map[string]dbaas.Seen{
		"/api/v1/crash/master?worker=w1&epoch=3": {Worker: "w1", Epoch: 3},
		"/api/v1/crash/slave?worker=w2":          {Worker: "w2"},
		"/api/v1/crash/slave?epoch=4":            {Epoch: 4},
		"/api/v1/crash/master":                   {},
	} {
		want(t, call(t, h, "POST", target, ""), http.StatusOK, "[1234]")
		if s.asked != seen {
			t.Errorf("%s: asked with %+v, want %+v", target, s.asked, seen)
		}
	}
	want(t, call(t, h, "POST", "/api/v1/master", `{"epoch":5}`), http.StatusOK, "")
	if s.asked != (dbaas.Seen{Epoch: 5}) {
		t.Errorf("hand-over: asked with %+v", s.asked)
	}
	s.crash = func() (int, bool, error) { t.Error("it was killed"); return 0, false, nil }
	for query, status := range map[string]int{
		"epoch=new": 400, "epoch=": 400, "epoch=-1": 400, "worker=": 400, "worker=a&worker=b": 400, "epoch=1&epoch=2": 400,
		"worker=w1;x": 400, "epoch=%zz": 400, "epoch=0": 409,
	} {
		want(t, call(t, h, "POST", "/api/v1/crash/master?"+query, ""), status, "{}")
		want(t, call(t, h, "POST", "/api/v1/crash/slave?"+query, ""), status, "{}")
	}
	s.crash = func() (int, bool, error) { return 0, false, dbaas.Seen{Epoch: 1}.CheckEpoch(2) }
	want(t, call(t, h, "POST", "/api/v1/crash/master?epoch=1", "", "Accept: application/problem+json"), http.StatusConflict, "")
}

// The list of workers is their pids as ascending numbers, an array also when empty.
func TestWorkerList_AscendingNumbers(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	want(t, call(t, h, "GET", "/api/v1/worker/list", ""), http.StatusOK, "[1000,2112,4330]")
	want(t, call(t, h, "GET", "/api/v1/worker/list", "nonsense"), http.StatusOK, "[1000,2112,4330]")
	s.workers = func() ([]orchestratorapi.WorkerInfo, error) { return nil, nil }
	want(t, call(t, h, "GET", "/api/v1/worker/list", ""), http.StatusOK, "[]")
}

// An outage behind the control loop is 503, never 500.
func TestCluster_Outage_Is503(t *testing.T) {
	down := errors.New("launcher unavailable")
	h := newAPI(&system{
		crash:   func() (int, bool, error) { return 0, false, down },
		workers: func() ([]orchestratorapi.WorkerInfo, error) { return nil, down },
		status:  func() (orchestratorapi.ClusterStatus, error) { return orchestratorapi.ClusterStatus{}, down },
	})
	for _, target := range []string{"POST /api/v1/crash/master", "POST /api/v1/crash/slave", "GET /api/v1/worker/list", "GET /api/v1/cluster"} {
		method, path, _ := strings.Cut(target, " ")
		w := call(t, h, method, path, "")
		if want(t, w, http.StatusServiceUnavailable, ""); strings.Contains(w.Body.String(), "launcher") || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: got %s, %v", target, w.Body, w.Header())
		}
	}
}

// A known path with another method is 405 with Allow; an unknown one, or one
// with a slash at its end, is 404; neither redirects.
func TestRoutes_OtherMethodsAndPaths(t *testing.T) {
	h := newAPI(&system{})
	for path, allow := range map[string]string{
		"/api/v1/db/read": "OPTIONS, POST", "/api/v1/db/write": "OPTIONS, POST", "/api/v1/db/clear": "OPTIONS, POST",
		"/api/v1/crash/master": "OPTIONS, POST", "/api/v1/crash/slave": "OPTIONS, POST", "/api/v1/worker/list": "GET, HEAD, OPTIONS",
		"/db/query": "GET, HEAD, OPTIONS, POST", "/db/execute": "OPTIONS, POST", "/db/request": "OPTIONS, POST", "/livez": "GET, HEAD, OPTIONS",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := call(t, h, method, path, "")
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
				t.Errorf("%s %s: got %d, Allow %q, want 405, %q", method, path, w.Code, w.Header().Get("Allow"), allow)
			}
		}
		want(t, call(t, h, "POST", path+"/", ""), http.StatusNotFound, "")
	}
	want(t, call(t, h, "GET", "/nothing", ""), http.StatusNotFound, "")
}

// Readiness names everything that is missing and nothing else.
func TestReadyz_NamesWhatIsMissing(t *testing.T) {
	s := &system{}
	down := errors.New("down")
	broker := error(nil)
	h := newAPI(s, func(c *orchestratorapi.Config) {
		c.Checks = []orchestratorapi.Check{{"broker", func(context.Context) error { return broker }}, {"persdb", func(context.Context) error { return broker }}}
	})
	want(t, call(t, h, "GET", "/livez", ""), http.StatusOK, "{}")
	want(t, call(t, h, "GET", "/readyz", ""), http.StatusOK, "{}")
	broker = down
	s.workers = func() ([]orchestratorapi.WorkerInfo, error) {
		return []orchestratorapi.WorkerInfo{{PID: 1, Role: dbaas.RoleMaster, Ready: true}, {PID: 2, Role: dbaas.RoleSlave}}, nil
	}
	w := call(t, h, "GET", "/readyz", "")
	if want(t, w, http.StatusServiceUnavailable, ""); !strings.Contains(w.Body.String(), "missing: broker, persdb, caught-up slave") {
		t.Errorf("got %s", w.Body)
	}
	s.workers = func() ([]orchestratorapi.WorkerInfo, error) { return nil, down }
	if w = call(t, h, "GET", "/readyz", ""); !strings.Contains(w.Body.String(), "master, caught-up slave") || strings.Contains(w.Body.String(), "down") {
		t.Errorf("got %s", w.Body)
	}
	want(t, call(t, h, "GET", "/livez", ""), http.StatusOK, "{}")
}

// A part that is silent takes no time from the question for the others.
func TestReadyz_SilentPart_IsNamedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{}
		h := newAPI(s, func(c *orchestratorapi.Config) {
			c.Checks = []orchestratorapi.Check{{"persdb", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}}
			c.Cluster = hasty{c.Cluster}
		})
		w := call(t, h, "GET", "/readyz", "")
		if want(t, w, http.StatusServiceUnavailable, ""); !strings.Contains(w.Body.String(), `"missing: persdb"`) {
			t.Errorf("got %s, want only persdb missing", w.Body)
		}
	})
}

// hasty is a cluster whose workers cannot be asked once the time is over.
type hasty struct{ orchestratorapi.Cluster }

func (c hasty) Workers(ctx context.Context) ([]orchestratorapi.WorkerInfo, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return c.Cluster.Workers(ctx)
}

// A read that waits for a position of another cluster is 410 and goes nowhere. Without a position the header says nothing.
func TestRead_PositionOfAnotherCluster_IsGone(t *testing.T) {
	s := &system{cluster: dbaas.ClusterID{8}}
	h := newAPI(s)
	const own, other = "X-Cluster-Id: 08000000000000000000000000000000", "X-Cluster-Id: 09000000000000000000000000000000"
	for _, target := range []struct{ method, path, body string }{
		{"GET", "/db/query?q=SELECT+1", ""}, {"POST", "/db/query", `["SELECT 1"]`}, {"POST", "/db/request", `["SELECT 1"]`}, {"POST", "/api/v1/db/read", readBody},
	} {
		s.reads = nil
		w := call(t, h, target.method, target.path, target.body, "X-Min-Seq: 3", other, "Accept: application/problem+json")
		if want(t, w, http.StatusGone, ""); !strings.Contains(w.Body.String(), `"code":"gone"`) || w.Header().Get("X-Cluster-Id") != strings.TrimPrefix(own, "X-Cluster-Id: ") {
			t.Errorf("%s: got %s, headers %v, want the code gone and the present id", target.path, w.Body, w.Header())
		}
		want(t, call(t, h, target.method, target.path, target.body, "X-Min-Seq: 3", "X-Cluster-Id: 8"), http.StatusBadRequest, "")
		if len(s.reads) > 0 {
			t.Errorf("%s: %d reads were sent", target.path, len(s.reads))
		}
		want(t, call(t, h, target.method, target.path, target.body, "X-Min-Seq: 3", own), http.StatusOK, "")
		want(t, call(t, h, target.method, target.path, target.body, other), http.StatusOK, "")
		want(t, call(t, h, target.method, target.path, target.body, "X-Min-Seq: 3"), http.StatusOK, "")
	}
	s.cluster = dbaas.ClusterID{} // not known
	if w := call(t, h, "GET", "/db/query?q=SELECT+1", "", "X-Min-Seq: 3", own); len(w.Header().Values("X-Cluster-Id")) > 0 {
		t.Errorf("got headers %v, want no cluster id", w.Header())
	}
}

// Operators see the cluster, the scaler's decisions and a page with the routes.
func TestOperations_AreServed(t *testing.T) {
	s := &system{status: func() (orchestratorapi.ClusterStatus, error) {
		return orchestratorapi.ClusterStatus{
			Members: []orchestratorapi.WorkerInfo{{PID: 7, Role: dbaas.RoleMaster, Container: "c1", Ready: true, Applied: 9, Lag: 1}},
			Cluster: dbaas.ClusterID{7}, Epoch: 3, Head: 10, DesiredSlaves: 2, ActualSlaves: 1, StartsHeldBack: 1, Leader: true,
		}, nil
	}}
	h := newAPI(s, func(c *orchestratorapi.Config) {
		c.Decisions = func(context.Context) any { return []string{"because"} }
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		c.Events = c.Metrics
	})
	want(t, call(t, h, "GET", "/api/v1/cluster", ""), http.StatusOK,
		`{"members":[{"pid":7,"role":"master","container":"c1","ready":true,"applied_seq":9,"lag":1}],"cluster_id":"07000000000000000000000000000000","epoch":3,"head_seq":10,"desired_slaves":2,"actual_slaves":1,"starts_held_back":1,"leader":true}`)
	s.cluster = dbaas.ClusterID{8}
	w := call(t, h, "GET", "/api/v1/scaling/decisions", "")
	if want(t, w, http.StatusOK, `["because"]`); w.Header().Get("X-Cluster-Id") != "08000000000000000000000000000000" {
		t.Errorf("got headers %v, want the cluster id", w.Header())
	}
	want(t, call(t, h, "GET", "/metrics", ""), http.StatusOK, "")
	want(t, call(t, h, "GET", "/api/v1/events", ""), http.StatusOK, "")
	w = call(t, h, "GET", "/", "")
	if want(t, w, http.StatusOK, ""); !strings.Contains(w.Body.String(), "/console/app.js") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("got %s", w.Header())
	}
	s.status = nil
	want(t, call(t, h, "GET", "/api/v1/cluster", ""), http.StatusOK,
		`{"members":[],"epoch":0,"head_seq":0,"desired_slaves":0,"actual_slaves":0,"leader":false}`)
}

// Without the tables that users and rides need, the system is not ready, and the answer says which table is missing. The
// tables are checked once a second at most. If a slave is too slow to answer, they count as present.
func TestReadyz_TablesGone_NotReady(t *testing.T) {
	now := epochStart
	var err error
	s := &system{}
	s.read = func(r dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{}, err }
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Now = func() time.Time { return now } })
	want(t, call(t, h, "GET", "/readyz", ""), http.StatusOK, "{}")
	err = dbaas.Errorf(dbaas.CodeInvalid, "no such table: users")
	want(t, call(t, h, "GET", "/readyz", ""), http.StatusOK, "{}")
	now = now.Add(time.Second)
	for range 3 {
		w := call(t, h, "GET", "/readyz", "")
		if want(t, w, http.StatusServiceUnavailable, ""); !strings.Contains(w.Body.String(), "no such table: users") {
			t.Errorf("got %s, want the table", w.Body)
		}
	}
	now, err = now.Add(time.Second), dbaas.Errorf(dbaas.CodeTimeout, "late")
	want(t, call(t, h, "GET", "/readyz", ""), http.StatusOK, "{}")
	if len(s.reads) != 3 || s.count.reads != 0 {
		t.Errorf("got %d reads, %d of them counted for scaling; want 3 and none", len(s.reads), s.count.reads)
	}
}
