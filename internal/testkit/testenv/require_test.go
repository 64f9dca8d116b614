package testenv_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// recorder is a test that can be observed: it ends its goroutine as a real test does, and records how.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.end = "failed: " + fmt.Sprintf(format, args...)
	panic(r)
}

func (r *recorder) Skipf(format string, args ...any) {
	r.end = "skipped: " + fmt.Sprintf(format, args...)
	panic(r)
}

// require returns the URL, or how the test that asked for it ended.
func require(t *testing.T, ask func(testing.TB) string) (address, end string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if got := recover(); got != nil && got != any(r) {
			panic(got)
		}
		end = r.end
	}()
	return ask(r), ""
}

// unset removes a variable for the length of a test.
func unset(t *testing.T, variables ...string) {
	t.Helper()
	for _, v := range variables {
		t.Setenv(v, "")
		if err := os.Unsetenv(v); err != nil {
			t.Fatal(err)
		}
	}
}

// elsewhere changes to a checkout in which no service is started, and returns its path.
func elsewhere(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module other\n")
	t.Chdir(dir)
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve answers every connection with a text, and returns its address.
func serve(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends when the listener is closed
		for {
			conn, acceptErr := listener.Accept()
			if acceptErr != nil {
				return
			}
			_, _ = io.ReadAtLeast(conn, make([]byte, 64), 4)
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// Without a service a test is skipped with a visible message; if the service was requested explicitly, the test
// fails.
func TestRabbitMQ_MissingServiceSkipsOnlyWhereNobodyCountsOnIt(t *testing.T) {
	elsewhere(t)
	unset(t, "CI", "RABBITMQ_URL")
	if _, end := require(t, testenv.RabbitMQ); !strings.HasPrefix(end, "skipped: NOT TESTED") {
		t.Errorf("nothing set: got %q, want a loud skip", end)
	}
	t.Setenv("CI", "true")
	if _, end := require(t, testenv.RabbitMQ); !strings.HasPrefix(end, "failed") {
		t.Errorf("in CI: got %q, want a failure", end)
	}
	unset(t, "CI")
	t.Setenv("RABBITMQ_URL", "amqp://u:p@"+serve(t, "HTTP/1.1 400")+"/")
	if _, end := require(t, testenv.RabbitMQ); !strings.HasPrefix(end, "failed") {
		t.Errorf("variable set, something else answers: got %q, want a failure", end)
	}
}

// A test that cannot have its own disk is skipped with a visible message; in CI it fails.
func TestMemoryDisk_CannotMount_SkipsOnlyOutsideCI(t *testing.T) {
	mount := func(tb testing.TB) string {
		tb.Helper()
		return testenv.MemoryDisk(tb, filepath.Join(t.TempDir(), "disk"), -1).Dir // no kernel mounts a disk of that size
	}
	unset(t, "CI")
	if _, end := require(t, mount); !strings.HasPrefix(end, "skipped: NOT TESTED") {
		t.Errorf("nothing set: got %q, want a loud skip", end)
	}
	t.Setenv("CI", "true")
	if _, end := require(t, mount); !strings.HasPrefix(end, "failed") {
		t.Errorf("in CI: got %q, want a failure", end)
	}
}

// A URL is returned only if the service behind it answers in its own protocol.
func TestRequire_ServiceIsReallyAsked(t *testing.T) {
	dir := elsewhere(t)
	unset(t, "CI", "ZOOKEEPER_URL")
	t.Setenv("RABBITMQ_URL", "amqp://u:p@"+serve(t, "\x01\x00\x00")+"/")
	if got, end := require(t, testenv.RabbitMQ); got != os.Getenv("RABBITMQ_URL") {
		t.Errorf("RabbitMQ: got %q and %q, want %q", got, end, os.Getenv("RABBITMQ_URL"))
	}
	loading := "zk://" + serve(t, "This ZooKeeper instance is not currently serving requests\n")
	write(t, filepath.Join(dir, ".services", "env"), "OTHER=1\nZOOKEEPER_URL="+loading+"\n")
	if _, end := require(t, testenv.ZooKeeper); !strings.HasPrefix(end, "skipped") {
		t.Errorf("ZooKeeper that is loading: got %q, want a skip", end)
	}
	serving := "zk://" + serve(t, "Zookeeper version: 3.8.0\nMode: standalone\n") + ",127.0.0.1:1/root"
	write(t, filepath.Join(dir, ".services", "env"), "OTHER=1\nZOOKEEPER_URL="+serving+"\n")
	if got, end := require(t, testenv.ZooKeeper); got != serving {
		t.Errorf("ZooKeeper: got %q and %q, want %q", got, end, serving)
	}
}
