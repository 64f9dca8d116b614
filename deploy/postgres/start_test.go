package postgres_test

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startScript is built in, as promoteScript is.
//
//go:embed start.sh
var startScript string

// programs stand in for the programs that start.sh calls. $ROOT is the server's folder. The other server's answer is in $ROOT/says.
var programs = map[string]string{
	"psql": `cat "$ROOT/says"`,
	"pg_basebackup": `echo "$2" >"$ROOT/conninfo"
mkdir -p "$4/pg_wal"
touch "$4/standby.signal" "$4/pg_wal/000000020000000000000001"`,
	"pg_controldata": `echo "Latest checkpoint's TimeLineID: 1" # as after each promotion, until the next checkpoint`,
	"initdb":         `touch "$ROOT/initdb"; exit 1`,
	"postgres":       `echo "$@" >"$ROOT/started"`,
	"pg_ctl":         `touch "$ROOT/stopped"`,
	"sleep":          `[ ! -e "$ROOT/slept" ] && touch "$ROOT/slept" # once`,
}

// dying is a program that changes files; the script is killed in its call number DIE_AT. It has then done half of its work.
const dying = `echo >>"$ROOT/calls"
[ "$(wc -l <"$ROOT/calls")" -ne "$DIE_AT" ] || { %[2]s; kill -KILL "$SCRIPT"; exit 1; }
%[1]s`

// host is a server that start.sh starts, with programs that only note what they are called for.
type host struct{ root, bin string }

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{root: t.TempDir(), bin: t.TempDir()}
	script := strings.NewReplacer("/var/lib/postgresql/data", h.root, "/run/secrets", h.root).Replace(startScript)
	if strings.Count(script, h.root) < 2 {
		t.Fatal("start.sh has its files elsewhere")
	}
	h.write(t, filepath.Join(h.bin, "start.sh"), script)
	h.write(t, filepath.Join(h.root, "postgres-superuser"), "secret")
	for name, text := range programs {
		h.program(t, name, text)
	}
	return h
}

func (h *host) program(t *testing.T, name, text string) {
	t.Helper()
	h.write(t, filepath.Join(h.bin, name), "#!/bin/sh\n"+text+"\n")
}

func (h *host) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// has reports whether a file is below the server's folder.
func (h *host) has(name string) bool {
	_, err := os.Stat(filepath.Join(h.root, name))
	return err == nil
}

func (h *host) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// data makes the data of a server.
func (h *host) data(t *testing.T, files ...string) {
	t.Helper()
	for _, name := range files {
		h.write(t, filepath.Join(h.root, "main", name), "")
	}
}

// start runs the script of server a, whose only other one is b, until it has become the engine and has looked once whether it is
// replaced, or until it is killed.
func (h *host) start(t *testing.T, env ...string) error {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(h.root, "slept")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `export SCRIPT=$$; exec sh "$0" "$@"`, filepath.Join(h.bin, "start.sh"), "a", "a", "b")
	cmd.Env = append(os.Environ(), append(env, "PATH="+h.bin+":"+os.Getenv("PATH"), "ROOT="+h.root)...)
	out, err := cmd.CombinedOutput()
	t.Logf("start.sh: %v\n%s", err, out)
	return err
}

// A former primary becomes a copy of a primary with a newer timeline, and of no other: the WAL says which timeline is its own. A
// standby is no former primary.
func TestStart_CopiesOnlyANewerPrimary(t *testing.T) {
	t.Parallel()
	const first, second, tenth = "pg_wal/000000010000000000000001", "pg_wal/000000020000000000000001", "pg_wal/0000000A0000000000000001"
	for _, test := range []struct {
		name   string
		files  []string
		says   string
		copies bool
	}{
		{"another was promoted", []string{first}, "primary 2", true},
		{"this one was promoted, too, before its first checkpoint", []string{first, second, "pg_wal/00000002.history"}, "primary 2", false},
		{"this one was promoted after the other", []string{second, tenth}, "primary 9", false},
		{"timelines are numbers", []string{second, tenth}, "primary 11", true},
		{"a standby", []string{first, "standby.signal"}, "primary 2", false},
		{"the other is a standby", []string{first}, "standby 0", false},
		{"no WAL", []string{"pg_wal/xlogtemp.1"}, "primary 2", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.data(t, test.files...)
			h.write(t, filepath.Join(h.root, "says"), test.says)
			if err := h.start(t); err != nil {
				t.Fatal(err)
			}
			if copied := h.has("conninfo"); copied != test.copies || !h.has("started") {
				t.Errorf("copied: %t, started: %t; want %t, true", copied, h.has("started"), test.copies)
			}
		})
	}
}

// The script is killed in each step in which it replaces the data. Its next start, at which no other server is there, makes no empty
// database, and the start after that ends with a copy of the primary.
func TestStart_Killed_StartsAgain(t *testing.T) {
	t.Parallel()
	deaths := 0
	for ; ; deaths++ {
		h := newHost(t)
		h.data(t, "pg_wal/000000010000000000000001")
		h.program(t, "rm", fmt.Sprintf(dying, `exec /bin/rm "$@"`, `/bin/rm -rf "$2/pg_wal"`))
		h.program(t, "mv", fmt.Sprintf(dying, `exec /bin/mv "$@"`, `:`))
		h.program(t, "pg_basebackup", fmt.Sprintf(dying, programs["pg_basebackup"], `mkdir "$4"`))
		says := filepath.Join(h.root, "says")
		h.write(t, says, "primary 2")
		err := h.start(t, fmt.Sprint("DIE_AT=", deaths+1))
		if err == nil {
			break
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !killed(exit) {
			t.Fatal(err)
		}
		for _, answer := range []string{"connection refused", "primary 2"} {
			h.write(t, says, answer)
			if err := h.start(t, "DIE_AT=0"); err != nil || !h.has("started") {
				t.Fatalf("death %d, then %s: got %v, want a server that starts", deaths, answer, err)
			}
		}
		if h.has("initdb") || !h.has("main/standby.signal") || h.has("new") || h.has("old") {
			t.Fatalf("death %d: the server's folder has something else than a copy of the primary", deaths)
		}
	}
	if deaths < 5 {
		t.Errorf("the script died %d times, want at least 5: it was not killed in each step", deaths)
	}
}

// A copy that is being made is no standby for which commits wait: only the server that follows later has the name.
func TestStart_CopyHasNoNameOfAStandby(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.write(t, filepath.Join(h.root, "says"), "primary 1")
	if err := h.start(t); err != nil {
		t.Fatal(err)
	}
	if got := h.read(t, "conninfo"); !strings.HasPrefix(got, "host=b user=postgres") || strings.Contains(got, "application_name") {
		t.Errorf("the copy is made with %q, want no application_name", got)
	}
	if got := h.read(t, "started"); !strings.Contains(got, "-c cluster_name=a") {
		t.Errorf("the server is started with %q, want its name", got)
	}
}

// A standby that was behind does not become a copy of a primary that is older than itself. Whether it is still behind is found out
// again.
func TestStart_BehindAnOlderPrimary_KeepsItsData(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.data(t, "pg_wal/000000020000000000000001")
	h.write(t, filepath.Join(h.root, "main", "standby.signal"), "x")
	h.write(t, filepath.Join(h.root, "says"), "primary 1")
	if err := h.start(t); err != nil {
		t.Fatal(err)
	}
	if h.has("conninfo") || h.has("stopped") || !h.has("started") || h.read(t, "main/standby.signal") != "" {
		t.Error("the standby is a copy of an older primary, or is still marked")
	}
}

// A server without data that may not make the database says why it waits, once a minute at most.
func TestStart_NoPrimary_SaysWhyItWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, says, want string }{
		{"/no/file", "connection refused", "may not make the database: it is not /no/file, and no file /no/file exists"},
		{"b", "connection refused", "may not make the database: it is not b, and no file b exists"},
		{"a", "standby 0", "another server is there"},
		{"a", "timeout expired", "does not answer"},
	} {
		h := newHost(t)
		h.program(t, "sleep", `echo >>"$ROOT/sleeps"; [ "$(wc -l <"$ROOT/sleeps")" -le 60 ]`) // the script ends at an error
		h.write(t, filepath.Join(h.root, "says"), test.says)
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(h.bin, "start.sh"), "a", test.first, "b")
		cmd.Env = append(os.Environ(), "PATH="+h.bin+":"+os.Getenv("PATH"), "ROOT="+h.root)
		out, err := cmd.CombinedOutput()
		if err == nil || h.has("initdb") || h.has("started") {
			t.Errorf("%+v: got %v, want a server that waits", test, err)
		}
		if strings.Count(string(out), test.want) != 2 || strings.Count(string(out), "\n") != 2 {
			t.Errorf("%+v: waited for 61 s, and said %q; want two lines", test, out)
		}
	}
}
