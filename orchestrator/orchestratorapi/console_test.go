package orchestratorapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/orchestrator/console"
	"rideshare/orchestrator/orchestratorapi"
)

// Callers learn their name and role, or none with missing and wrong credentials; without AUTH_FILE everybody is admin.
// A browser gets the page, with its form to sign in, without credentials; other clients do not.
func TestWhoami_TellsTheRole(t *testing.T) {
	const path = "/api/v1/whoami"
	want(t, call(t, newAPI(&system{}), "GET", path, ""), http.StatusOK, `{"role":"admin","name":"","credentials":false}`)
	file, callers := withRoles(t)
	creds, err := httpapi.ParseCredentials(strings.NewReader(file + "bearer old\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := newAPI(&system{}, func(c *orchestratorapi.Config) { c.Credentials = creds })
	for _, target := range []string{"/", "/docs", "/openapi.json"} {
		page := call(t, h, "GET", target, "", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
		if want(t, page, http.StatusOK, ""); page.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s makes the browser ask for credentials itself: %v", target, page.Header())
		}
		want(t, call(t, h, "GET", target, "", "Accept: */*"), http.StatusUnauthorized, "")
	}
	for authorization, answer := range map[string]string{
		"": `"none","name":""`, callers[0]: `"none","name":""`, callers[1]: `"read","name":"read"`, callers[2]: `"write","name":"write"`,
		callers[3]: `"admin","name":"admin"`, "Bearer old": `"admin","name":""`,
	} {
		want(t, call(t, h, "GET", path, "", "Authorization: "+authorization), http.StatusOK, `{"role":`+answer+`,"credentials":true}`)
	}
}

// The settings are those of the process and of the parts that it calls; without such parts the list is empty.
func TestSettings_WithThoseOfOtherParts(t *testing.T) {
	own := settings.Setting{Name: "--listen", Env: "L", Value: ":1", Source: "flag"}
	const process = `"settings":[{"name":"--listen","env":"L","value":":1","source":"flag"}]`
	configure := func(parts func(context.Context) []settings.Part) func(*orchestratorapi.Config) {
		return func(c *orchestratorapi.Config) {
			c.About, c.Parts = console.About{Settings: []settings.Setting{own}}, parts
		}
	}
	want(t, call(t, newAPI(&system{}, configure(nil)), "GET", "/api/v1/settings", ""), http.StatusOK, `{"version":"","go":"",`+process+`,"parts":[],"modules":null}`)
	h := newAPI(&system{}, configure(func(context.Context) []settings.Part {
		return []settings.Part{{Part: "persdb", Instance: "h1:9530", Settings: []settings.Setting{own}}, {Part: "worker", Instance: "w1", Error: "away"}}
	}))
	want(t, call(t, h, "GET", "/api/v1/settings", ""), http.StatusOK,
		`{"version":"","go":"",`+process+`,"parts":[{"part":"persdb","instance":"h1:9530",`+process+`},{"part":"worker","instance":"w1","error":"away"}],"modules":null}`)
}

// A file that the console does not have is an unknown path.
func TestConsole_UnknownFile_Is404(t *testing.T) {
	want(t, call(t, newAPI(&system{}), "GET", "/console/nothing.js", ""), http.StatusNotFound, "")
}

// In the console's stream a condition whose worker is there and does not serve yet is starting; without a worker it is
// only missing.
func TestLive_WorkerStarts_IsNotMissing(t *testing.T) {
	master := orchestratorapi.WorkerInfo{PID: 1, Role: dbaas.RoleMaster, Ready: true}
	slave := orchestratorapi.WorkerInfo{PID: 2, Role: dbaas.RoleSlave}
	ready := slave
	ready.Ready = true
	for name, c := range map[string]struct {
		workers []orchestratorapi.WorkerInfo
		want    string
	}{
		"Nobody":      {nil, `[{"name":"master","ok":false},{"name":"caught-up slave","ok":false}]`},
		"SlaveStarts": {[]orchestratorapi.WorkerInfo{master, slave}, `[{"name":"master","ok":true},{"name":"caught-up slave","ok":false,"starting":true}]`},
		"OneServes":   {[]orchestratorapi.WorkerInfo{master, slave, ready}, `[{"name":"master","ok":true},{"name":"caught-up slave","ok":true}]`},
	} {
		t.Run(name, func(t *testing.T) {
			live := console.NewLive()
			newAPI(&system{
				workers: func() ([]orchestratorapi.WorkerInfo, error) { return c.workers, nil },
				status: func() (orchestratorapi.ClusterStatus, error) {
					return orchestratorapi.ClusterStatus{Members: c.workers}, nil
				},
			}, func(cfg *orchestratorapi.Config) { cfg.Live = live })
			text, err := json.Marshal(live.State(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			var state struct{ Health json.RawMessage }
			if err = json.Unmarshal(text, &state); err != nil || string(state.Health) != c.want {
				t.Errorf("got %s, error %v, want %s", state.Health, err, c.want)
			}
		})
	}
}
