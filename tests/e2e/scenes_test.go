package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Each scene of overload is played in its short form, on its own system, which is removed afterwards. The short form judges
// only counts: which requests are refused and why, that none fails, and that every acknowledged write is there.
func TestScenes_ShortForms(t *testing.T) {
	for scene, least := range map[string]int{"n1": 20, "n2": 8, "n3": 4, "n4": 5, "n5": 16, "n6": 2} {
		t.Run(scene, func(t *testing.T) {
			temp, file := t.TempDir(), filepath.Join(t.TempDir(), "scene.json")
			cmd := exec.CommandContext(t.Context(), suite.binary, "load", scene, "--start", "embedded", "--short", "--json", file)
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("load %s: %v\n%s", scene, err, out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var result struct {
				OK     bool
				Checks []struct{ OK bool }
			}
			if err = json.Unmarshal(text, &result); err != nil || !result.OK || len(result.Checks) < least {
				t.Errorf("got %s, %v, want a good result with at least %d checks", text, err, least)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("got %v left behind, %v; want nothing", left, err)
			}
		})
	}
}
