package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each patch applies to the code, and the tests that it names exist.
func TestPatches_FitTheTree(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(".", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err = m.apply(t.Context(), root, t.TempDir()); err != nil {
			t.Errorf("%v: mend the patch, or drop it when the code that it breaks is gone", err)
		}
		for _, g := range m.guards {
			if g.test != "" && !hasTest(t, filepath.Join(root, g.pkg), g.test) {
				t.Errorf("%s: there is no test %s", m.patch, g)
			}
		}
	}
}

func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

const (
	code = `package a

func Sum(a, b int) int {
	return a + b
}

func Two() int {
	return 2
}
`
	codeTest = `package a

import (
	"os"
	"os/exec"
	"testing"
)

func TestSum(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Error("wrong")
	}
}

func TestWrong(t *testing.T) { t.Error("always") }

func TestBinary(t *testing.T) {
	if out, err := exec.Command("go", "build", "-o", os.DevNull, "./cmd/a").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
`
	command = `package main

func Sum(a, b int) int {
	return a + b
}

func main() {}
`
)

// patch returns a patch of code that replaces one line by another.
func patch(test, from, to string) string {
	return "What it breaks.\n\nRed: ./. " + test + "\n\n--- a/a.go\n+++ b/a.go\n@@ -3,3 +3,3 @@\n func Sum(a, b int) int {\n-" + from + "\n+" + to + "\n }\n"
}

// A patch that turns its test red is accepted. Any other outcome is an error with the reason. The tree is never changed.
func TestRunAll_OneMutant_Verdict(t *testing.T) {
	const sum = "\treturn a + b"
	for name, tt := range map[string]struct {
		patch, want string
	}{
		"Red":                {patch("TestSum", sum, "\treturn a - b"), ""},
		"Green":              {patch("TestSum", sum, "\treturn b + a"), "stays green"},
		"NoSuchTest":         {patch("TestNone", sum, "\treturn a - b"), "stays green"},
		"RedBefore":          {patch("TestWrong", sum, "\treturn a - b"), "fails on the tree as it is"},
		"NoBuild":            {patch("TestSum", sum, "\treturn nothing"), "does not build"},
		"NoBuildInTheBinary": {strings.ReplaceAll(patch("TestBinary", sum, "\treturn nothing"), "a.go", "cmd/a/main.go"), "does not build"},
		"DoesNotFit":         {patch("TestSum", "\treturn 5", "\treturn a - b"), "does not apply"},
		"NoRedInHead":        {strings.Replace(patch("TestSum", sum, "\treturn a - b"), "Red:", "Reds:", 1), "no line 'Red:"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module a\n\ngo 1.26\n", "a.go": code, "a_test.go": codeTest, "cmd/a/main.go": command, "one.patch": tt.patch,
			} {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			err := runAll(t.Context(), io.Discard, dir, dir, "^one$")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "a.go")); err != nil || string(text) != code {
				t.Errorf("the code was changed to %s, %v", text, err)
			}
		})
	}
}
