package console_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"rideshare/internal/charts"
	"rideshare/orchestrator/console"
)

func get(t *testing.T, name string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if !console.Files(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), name) {
		w.Code = http.StatusNotFound
	}
	return w
}

// Every file has its type and the policy that keeps the page to its own host; none names another host, and all that a
// module imports exists.
func TestFiles_AreCompleteAndLoadNothingElsewhere(t *testing.T) {
	files, err := os.ReadDir("web")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z]`)
	imported := regexp.MustCompile(`from '\./([^']+)'`)
	names := []string{charts.Script, charts.Style}
	for _, file := range files {
		names = append(names, file.Name())
	}
	for _, name := range names {
		w := get(t, name)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") == "" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: got %d %v", name, w.Code, h)
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		if found := elsewhere.FindString(text); found != "" && !strings.HasSuffix(found, "// ") {
			t.Errorf("%s: names %q", name, found)
		}
		for _, module := range imported.FindAllStringSubmatch(text, -1) {
			if get(t, module[1]).Code != http.StatusOK {
				t.Errorf("%s: imports %s, which is not there", name, module[1])
			}
		}
	}
	if w := get(t, ""); !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Body.String(), "app.js") {
		t.Errorf("the page: got %v %s", w.Header(), w.Body)
	}
	for _, name := range []string{"nothing.js", "../console.go", "charts.go", "..", ".", "web"} {
		if w := get(t, name); w.Code != http.StatusNotFound {
			t.Errorf("%q: got %d, want 404", name, w.Code)
		}
	}
}
