package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rideshare/gateway"
)

// A body that has ended stays ended when the server closes it, which it does as soon as the answer begins.
func TestEndedBody_ClosedAfterItsEnd_IsStillItsEnd(t *testing.T) {
	var text string
	var after error
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := gateway.EndedBody(r.Body)
		got, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		text = string(got)
		_ = r.Body.Close()
		_, after = body.Read(make([]byte, 1))
	}))
	defer server.Close()
	resp, err := server.Client().Post(server.URL, "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if text != "{}" || after != io.EOF {
		t.Errorf("got %q, then %v, want {} and then its end", text, after)
	}
}
