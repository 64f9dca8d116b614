package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// namespaceEnv names the network namespace that a test has put this process into.
const namespaceEnv = "RIDESHARE_TEST_NAMESPACE"

// The engine of `up --launcher docker` is killed and restarted while a client writes: the workers that the engine then
// ends are replaced, and every acknowledged write is there exactly once.
func TestUp_EngineKilledAndStartedAgain_WholeAndNothingLost(t *testing.T) {
	t.Parallel()
	if os.Getenv(namespaceEnv) == "" {
		inNamespace(t)
		return
	}
	e := newOwnEngine(t)
	binary := e.up(t)
	before := awaitWorkers(t, nil)
	if _, err := ask(t.Context(), "/db/execute", `["CREATE TABLE effects(name TEXT NOT NULL)"]`); err != nil {
		t.Fatal(err)
	}
	written := write(t)
	e.kill(t)
	e.start(t)
	after := awaitWorkers(t, before)
	acked := written()
	t.Logf("workers %v, then %v; %d writes acknowledged", before, after, acked)
	there, err := ask(t.Context(), "/db/query?level=strong", `["SELECT name FROM effects"]`)
	if err != nil {
		t.Fatal(err)
	}
	for i := range acked {
		if n := strings.Count(there, effect(i)); n != 1 {
			t.Errorf("%s was acknowledged and is there %d times, want once", effect(i), n)
		}
	}
	run(t, binary, "check")
}

// inNamespace runs this test again in a network namespace of its own: to the engine of the test and its workers it is the
// machine's network, and RabbitMQ and ZooKeeper are in it.
func inNamespace(t *testing.T) {
	t.Helper()
	needEngine(t)
	name := "rsup" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	addNamespace(t, name)
	again := exec.CommandContext(t.Context(), "nsenter", "--net=/run/netns/"+name, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	again.Env = append(os.Environ(), namespaceEnv+"="+name)
	out, err := again.CombinedOutput()
	switch t.Log(string(out)); {
	case strings.Contains(string(out), "--- SKIP: "+t.Name()): // never when CI is set
		t.Skip("NOT TESTED in the namespace either")
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("in the namespace: %v", err)
	}
}

// up runs the whole system at its usual addresses, which are free in this namespace, and returns its binary.
func (e *ownEngine) up(t *testing.T) (binary string) {
	t.Helper()
	binary, e.image = filepath.Join(t.TempDir(), "rideshare"), runName+":real"
	if err := e.importImage(t.Context(), "rideshare/cmd/rideshare", binary); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "up", "--launcher", "docker", "--docker-host", e.host, "--docker-image", e.image, "--data", t.TempDir(),
		"--bus", testenv.StartRabbitMQ(t).URL, "--coordinator", testenv.StartZooKeeper(t).URL)
	cmd.Env = append(os.Environ(), "CALL_TIMEOUT=40s") // however slow the machine is
	log := &logs{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("up: %v\n%s", err, log)
		}
	})
	return binary
}

// ask returns the orchestrator's answer to a POST with body, which is also the request's key, or to a GET if body is
// empty. Any status but 200 is an error, and so is an error of a statement.
func ask(ctx context.Context, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8083"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		req.Method = http.MethodPost
		req.Header.Set("Idempotency-Key", body)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || strings.Contains(string(text), `"error"`) {
		err = fmt.Errorf("%s %s: got %d %s", path, body, resp.StatusCode, text)
	}
	return string(text), err
}

func effect(i int) string { return fmt.Sprintf("effect-%06d", i) }

// write inserts effects, each until it is acknowledged, until the returned function is called: that returns their number.
func write(t *testing.T) (end func() int) {
	t.Helper()
	acked := 0
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for range time.Tick(10 * time.Millisecond) { // the machine has other things to do
			if _, err := ask(ctx, "/db/execute", `[["INSERT INTO effects VALUES(?)","`+effect(acked)+`"]]`); err == nil {
				acked++
			}
			if ctx.Err() != nil {
				return
			}
		}
	})
	return func() int {
		cancel()
		running.Wait()
		return acked
	}
}

// awaitWorkers waits until the system is ready with a master and a slave that are not in old, and returns their pids.
func awaitWorkers(t *testing.T, old []int) (pids []int) {
	t.Helper()
	testenv.Eventually(t, limit, func() error {
		text, err := ask(t.Context(), "/api/v1/worker/list", "")
		if err == nil {
			err = json.Unmarshal([]byte(text), &pids)
		}
		if err != nil || len(pids) != 2 || slices.ContainsFunc(pids, func(pid int) bool { return slices.Contains(old, pid) }) {
			return fmt.Errorf("got workers %s (%w), want two, none of %v", text, err, old)
		}
		_, err = ask(t.Context(), "/readyz", "")
		return err
	})
	return pids
}
