package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start is the time of the first request of every result.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// result returns JMeter's result of a good run, in which changes, pairs of an old and a new text, are replaced.
func result(changes ...string) string {
	text := "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,bytes,Latency\n"
	for i, thread := range []string{"0 prepare 1-1", "1 ramp 1-1", "1 ramp 1-2", "2 await tick 2-1", "3 burst 3-1", "3 burst 3-1", "5 steady 5-1", "6 quiet 6-1"} {
		text += fmt.Sprintf("%d,%d,db read,200,OK,%s,text,true,250,%d\n", start.Add(time.Duration(i)*time.Second).UnixMilli(), i+1, thread, i+1)
	}
	return strings.NewReplacer(changes...).Replace(text)
}

// decided returns decisions, a second apart. pairs has the number of reads and of wanted slaves of each.
func decided(pairs ...int) []decision {
	all := []decision{{At: start.Add(-time.Second), Count: 1000, Wanted: 8, Done: true}} // before the run
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, decision{At: start.Add(time.Duration(i+1) * time.Second), Count: pairs[i], Wanted: pairs[i+1], Done: true})
	}
	return all
}

// A run is good only if all scenes were played, nothing failed, and slaves came and went.
func TestRun_Verdicts(t *testing.T) {
	good := decided(30, 2, 5, 1)
	undone := decided(30, 2, 5, 1)
	undone[1].Done = false
	for name, test := range map[string]struct {
		result    string
		decisions []decision
		slaves    int
		want      string // in the error; empty: no error
	}{
		"Good":        {result(), good, 1, ""},
		"Failed":      {result("200,OK,5 steady 5-1,text,true", "503,OK,5 steady 5-1,text,false"), good, 1, `scene "5 steady": 1 of 1 requests failed: map[db read 503:1]`},
		"NotPlayed":   {result("6 quiet 6-1", "7 other 6-1"), good, 1, `scene "6 quiet" has no request`},
		"NoScaling":   {result(), decided(30, 1, 5, 1), 1, "none wanted more than 1 slave"},
		"NoDecisions": {result(), decided(), 1, "of 0 decisions none wanted"},
		"BurstSplit":  {result(), decided(1, 2, 1, 1), 1, "the burst was split"},
		"StaysOut":    {result(), decided(30, 2), 1, "after the quiet scene 2 slaves"},
		"NotDone":     {result(), undone, 1, "was not carried out"},
		"SlavesLeft":  {result(), good, 3, "3 slaves are there"},
		"NoNames":     {"1,2,3\n", good, 1, "no column timeStamp"},
		"Empty":       {"", good, 1, "read the result's names"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			serve := func(path string, v any) {
				mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
			}
			serve("/api/v1/scaling/decisions", test.decisions)
			serve("/api/v1/cluster", map[string]int{"actual_slaves": test.slaves})
			server := httptest.NewServer(mux)
			defer server.Close()
			file := filepath.Join(t.TempDir(), "out.jtl")
			if err := os.WriteFile(file, []byte(test.result), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			settle := "1m" // With one slave the first answer is enough.
			if test.slaves != 1 {
				settle = "3s"
			}
			err := run(t.Context(), []string{"-jtl", file, "-orchestrator", server.URL, "-settle", settle}, &out)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if test.want == "" && !strings.Contains(out.String(), "1 ramp               2       0        3        3        3") {
				t.Errorf("got %s, want a line for the scene with 2 requests", &out)
			}
		})
	}
}
