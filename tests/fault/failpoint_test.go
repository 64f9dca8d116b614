package fault_test

import (
	"bytes"
	"os"
	"testing"

	"rideshare/internal/failpoint"
)

// The delivered binary has neither the code of failpoints nor their names. The binary for these tests has both.
func TestBinary_Delivered_HasNoFailpoints(t *testing.T) {
	t.Parallel()
	traces := []string{
		"rideshare/internal/failpoint.(*registry).", // a stripped binary still has the names of functions
		string(failpoint.MasterAfterCommit), string(failpoint.NoEpochCheck), failpoint.EnvArm, failpoint.EnvDir,
	}
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
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, trace := range traces {
				if got := bytes.Contains(content, []byte(trace)); got != made.want {
					t.Errorf("%q in the binary: got %t, want %t", trace, got, made.want)
				}
			}
		})
	}
}
