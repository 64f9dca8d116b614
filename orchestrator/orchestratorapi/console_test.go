package orchestratorapi_test

import (
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
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
