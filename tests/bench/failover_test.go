package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Master processes are killed by a signal, and each fail-over is measured: the loss is noticed, the next master is named, and no
// write is lost.
func TestFailover_ProcessesKilled_EachIsMeasured(t *testing.T) {
	figures := filepath.Join(t.TempDir(), "figures.json")
	out := run(t, "failover", "--launcher", "process", "--kills", "2", "--writes", "50", "--reads", "50", "--json", figures)
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	type spread struct {
		N        int  `json:"n"`
		P99IsMax bool `json:"p99_is_max"`
	}
	var got struct {
		Mode   string `json:"mode"`
		Back   spread `json:"unavailable"`
		Gap    spread `json:"gap"`
		Died   spread `json:"died"`
		Named  spread `json:"named"`
		Writes struct {
			OK int `json:"ok"`
		} `json:"writes"`
		Goals   []json.RawMessage `json:"goals"`
		Lost    int               `json:"lost"`
		Doubled int               `json:"doubled"`
		Unasked int               `json:"unasked"`
	}
	if err = json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if want := (spread{2, true}); got.Mode != "kill" || got.Back != want || got.Gap != want || got.Died != want || got.Named != want || len(got.Goals) != 2 {
		t.Errorf("got %+v, want 2 kills measured, no p99 of them, and 2 goals", got)
	}
	if got.Writes.OK == 0 || got.Lost+got.Doubled+got.Unasked > 0 || !strings.Contains(out, "max is the longest of 2") {
		t.Errorf("got %+v, want writes, none lost, doubled or unasked, and:\n%s", got, out)
	}
}
