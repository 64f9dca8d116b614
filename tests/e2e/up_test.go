package e2e

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// In one process, the system is ready in a fraction of a second, plus the time of the disk. The best of five starts counts,
// since other work of the machine may delay any of them.
func TestUp_OneProcess_ReadyInAFractionOfASecond(t *testing.T) {
	best := startLimit
	for range 5 {
		sys := start(t, setup{owned: true})
		sys.Stop(t)
		began := time.Now()
		sys.Start(t)
		best = min(best, time.Since(began))
	}
	if limit := time.Second + 10*syncTime(t); best >= limit {
		t.Errorf("the best of five starts took %v, want less than %v", best, limit)
	}
}

// syncTime returns how long the disk takes to keep a small file.
func syncTime(t *testing.T) time.Duration {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "small"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // its text does not matter
	if _, err = file.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err = file.Sync(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// A second `up` on the same directory fails with one clear line. The first continues and keeps its ready file.
func TestUp_SameDataTwice_SecondRefused(t *testing.T) {
	sys := start(t, setup{owned: true})
	second := runBinary(t, nil, sys.upArgs()...)
	second.expect(t, 1, sys.dataDir())
	if lines := strings.Count(strings.TrimSpace(second.stderr), "\n"); lines != 0 {
		t.Errorf("stderr: got %q, want one line", second.stderr)
	}
	if err := sys.readReady(); err != nil {
		t.Errorf("the ready file of the first: %v", err)
	}
	sys.PutUser(t, "ann")
}

// The next start removes the ready file of a killed `up`, even if that start never becomes ready.
func TestUp_ReadyFileOfAKilledProcess_RemovedByTheNextStart(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.Kill(t)
	if _, err := os.Stat(sys.readyFile()); err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	args := append(sys.upArgs(), "--bus", "amqp://127.0.0.1:1/", "--coordinator", "zk://127.0.0.1:1", "--launcher", "process")
	waiting, err := startProcess(filepath.Join(t.TempDir(), "log"), []string{markerEnv + "=" + sys.id}, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waiting.signal(syscall.SIGKILL) }() // if the test passes, it has already ended
	eventually(t, startLimit, func() error {
		if _, missing := os.Stat(sys.readyFile()); !errors.Is(missing, fs.ErrNotExist) {
			return errors.New("the ready file is still there")
		}
		return nil
	})
	if err = waiting.signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-waiting.done
	sys.Start(t)
}

// A busy port is an error at start, in one line that names the address.
func TestUp_BusyPort_FailsWithOneLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	address := busy.Addr().String()
	for _, flag := range []string{"--gateway", "--users", "--rides", "--orchestrator"} {
		sys := newSystem(t.TempDir(), setup{flags: []string{flag, address}})
		got := runBinary(t, []string{markerEnv + "=" + sys.id}, sys.upArgs()...)
		got.expect(t, 1, address)
		if lines := strings.Count(strings.TrimSpace(got.stderr), "\n"); lines != 0 {
			t.Errorf("%s: stderr is %q, want one line", flag, got.stderr)
		}
		if left := processesOf(sys.id); len(left) > 0 {
			t.Errorf("%s: left behind processes %v", flag, left)
		}
		if _, err := os.Stat(sys.readyFile()); err == nil {
			t.Errorf("%s: left its ready file behind", flag)
		}
	}
}

// Wrong usage exits with 2 and says what is wrong; help and version exit with 0.
func TestUp_ExitCodes_TellUsageFromFailure(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{nil, nil, 2, ""},
		{nil, []string{"nosuchcommand"}, 2, "nosuchcommand"},
		{nil, []string{"up", "--nosuchflag"}, 2, "--nosuchflag"},
		{nil, []string{"up", "--data", dir, "--slaves", "many"}, 2, "--slaves"},
		{nil, []string{"up", "--data", dir, "--slaves", "-1"}, 2, "slaves"},
		{nil, []string{"up", "--data", dir, "--bus", "carrier-pigeon"}, 2, "bus"},
		{nil, []string{"up", "--data", dir, "--bus-file", dir + "/missing"}, 2, "--bus-file"},
		{nil, []string{"up", "--data", dir, "--bus-file", "/dev/null"}, 2, "does not hold"},
		{nil, []string{"worker", "--coordinator", "zk://x", "--persdb-url", "http://x"}, 2, "--bus-file"},
		{nil, []string{"orchestrator", "--bus", "x", "--bus-file", "y", "--coordinator", "zk://x", "--persdb-url", "http://x"}, 2, "--bus and --bus-file"},
		{nil, []string{"orchestrator", "--bus", "x", "--launcher", "catapult", "--coordinator", "zk://x", "--persdb-url", "http://x"}, 2, "unix:///path"},
		{nil, []string{"launcher", "--engine", "docker", "--bus", "x", "--coordinator", "zk://x", "--persdb-url", "http://x"}, 2, "--bus-file"},
		{nil, []string{"launcher", "--token-file", "/dev/null", "--bus", "x", "--coordinator", "zk://x", "--persdb-url", "http://x"}, 2, "LAUNCHER_TOKEN_FILE"},
		{nil, []string{"up", "--data", dir, "--coordinator", "nobody"}, 2, "coordinator"},
		{nil, []string{"up", "--data", dir, "--launcher", "catapult"}, 2, "launcher"},
		{nil, []string{"up", "--data", dir, "--gateway", "not an address"}, 2, "gateway"},
		{nil, []string{"up", "--data", ""}, 2, "--data"},
		{nil, []string{"load", "--html", dir + "/missing/report.html"}, 2, "--html"},
		{[]string{"RIDES_CLOCK=yesterday"}, []string{"up", "--data", dir}, 2, "RIDES_CLOCK"},
		{[]string{"RIDES_TIMEZONE=Nowhere/Atlantis"}, []string{"up", "--data", dir}, 2, "RIDES_TIMEZONE"},
		{[]string{"RIDES_USER_CHECK=guess"}, []string{"up", "--data", dir}, 2, ""},
		{[]string{"SCALE_PERIOD=often"}, []string{"up", "--data", dir}, 2, ""},
		{[]string{"STARTS_PER_MINUTE=0"}, []string{"up", "--data", dir}, 2, "between 1 and 600"},
		{[]string{"HUNG_AFTER=200ms"}, []string{"up", "--data", dir}, 2, "between 300ms and 1m"},
		{[]string{"LOG_LEVEL=loud"}, []string{"up", "--data", dir}, 2, ""},
		{[]string{"AUTH_FILE=" + dir + "/missing"}, []string{"up", "--data", dir}, 2, "missing"},
		{nil, []string{"healthcheck", "http://127.0.0.1:1/readyz"}, 1, ""},
		{nil, []string{"healthcheck", "unix://" + dir + "/missing"}, 1, "not ready"},
		{nil, []string{"healthcheck", "localhost:80"}, 2, "unix:///path"},
	} {
		t.Run(strings.Join(append(c.env, c.args...), "_"), func(t *testing.T) {
			got := runBinary(t, c.env, c.args...)
			got.expect(t, c.code, c.says)
			if got.stderr == "" {
				t.Error("stderr is empty, want the reason")
			}
		})
	}
	for _, args := range [][]string{{"--help"}, {"up", "--help"}, {"version"}} {
		got := runBinary(t, nil, args...)
		if got.code != 0 || got.stdout == "" {
			t.Errorf("%v: got exit code %d and stdout %q, want 0 and a text", args, got.code, got.stdout)
		}
	}
}

// Every setting of `up` is in its help: flag, environment variable and default.
func TestUp_Help_ShowsEverySetting(t *testing.T) {
	help := runBinary(t, nil, "up", "--help").stdout
	for _, want := range []string{
		"--data", "./data", "--gateway", "127.0.0.1:8080", "--users", "127.0.0.1:8081", "--rides", "127.0.0.1:8082", "--orchestrator", "127.0.0.1:8083",
		"--bus", "--coordinator", "--launcher", "inproc", "--slaves", "--ready-file", "--demo",
		"RIDES_CLOCK", "RIDES_TIMEZONE", "Asia/Kolkata", "RIDES_USER_CHECK", "RIDES_ORIGIN", "SCALE_PERIOD", "2m", "SCALE_READS_PER_SLAVE", "SCALE_MIN", "SCALE_MAX",
		"SCALE_POLICY", "STARTS_PER_MINUTE", "HUNG_AFTER", "CALL_TIMEOUT", "5s", "AUTH_FILE", "LOG_LEVEL",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("up --help does not show %s", want)
		}
	}
}

// `healthcheck` exits with 0 for a part that is ready.
func TestHealthcheck_ReadyPart_ExitsZero(t *testing.T) {
	sys := shared(t)
	if got := runBinary(t, nil, "healthcheck", sys.Orchestrator+"/readyz"); got.code != 0 {
		t.Errorf("got %d, stderr %s, want 0", got.code, got.stderr)
	}
}

// `up` prints where everything listens and commands to try.
func TestUp_Output_TellsWhereEverythingListens(t *testing.T) {
	sys := start(t, setup{owned: true})
	text, err := os.ReadFile(sys.logFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{sys.Gateway, sys.Users, sys.Rides, sys.Orchestrator, "curl"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the output lacks %s", want)
		}
	}
}

// --demo puts users and rides into an empty database, and nothing into one that has some.
func TestUp_Demo_FillsAnEmptyDatabaseOnly(t *testing.T) {
	sys := start(t, setup{flags: []string{"--demo"}})
	users := decode[[]string](t, sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, anyBody))
	rides := decode[[]int](t, sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, anyBody))
	if len(users) == 0 || rides[0] == 0 {
		t.Errorf("demo: got users %v and %v rides, want some of both", users, rides)
	}
	sys.Restart(t)
	sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, toJSON(rides))
	sys.Post(t, sys.Users+"/api/v1/db/clear", "").expect(t, http.StatusOK, "{}")
	sys.PutUser(t, "ann")
	sys.Restart(t)
	sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, `["ann"]`)
}
