package fault_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"rideshare/internal/failpoint"
)

// The delivered binary has neither code of failpoints nor their names; the one for these tests has both.
func TestBinary_Delivered_HasNoFailpoints(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]struct {
		build func() (string, error)
		want  bool
	}{
		"Delivered": {binary, false},
		"Failable":  {failableBinary, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := made.build()
			if err != nil {
				t.Fatal(err)
			}
			symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", path).Output()
			if err != nil || !bytes.Contains(symbols, []byte(" main.main\n")) {
				t.Fatalf("go tool nm: got %d bytes, %v, want the symbols", len(symbols), err)
			}
			if got := bytes.Contains(symbols, []byte("rideshare/internal/failpoint.")); got != made.want {
				t.Errorf("code of failpoints: got %t, want %t", got, made.want)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{string(failpoint.MasterAfterCommit), string(failpoint.NoEpochCheck), failpoint.EnvArm, failpoint.EnvDir} {
				if got := bytes.Contains(text, []byte(name)); got != made.want {
					t.Errorf("the text %q: got %t, want %t", name, got, made.want)
				}
			}
		})
	}
}
