package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"rideshare/internal/testkit/launchtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch/docker"
)

// limit bounds a wait for what must happen.
const limit = time.Minute

// bench is the engine as the tests of this package share it: an image with a stub worker,
// and a network. They are removed after the last test.
type bench struct {
	host    string
	sdk     *client.Client
	image   string
	network string
}

var shared struct {
	sync.Mutex
	*bench
}

// stacks numbers the stacks of this run.
var stacks atomic.Int64

// runName names what this run of the tests makes.
var runName = fmt.Sprintf("rslaunchtest%d", os.Getpid())

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.bench != nil {
		shared.remove()
	}
	os.Exit(code) //nolint:forbidigo // the main function of the tests
}

// engine returns the bench, after the engine has answered.
func engine(tb testing.TB) *bench {
	tb.Helper()
	host := testenv.Docker(tb)
	shared.Lock()
	defer shared.Unlock()
	if shared.bench != nil {
		return shared.bench
	}
	sdk, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{host: host, sdk: sdk, image: runName + ":stub", network: runName}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	shared.bench = b // what fails half way is removed too
	if err = b.importImage(ctx, stubWorker, filepath.Join(tb.TempDir(), "stub")); err == nil {
		_, err = sdk.NetworkCreate(ctx, b.network, network.CreateOptions{})
	}
	if err != nil {
		tb.Fatalf("prepare the engine: %v", err)
	}
	return b
}

// stubWorker is the worker of all tests but those of the whole system.
const stubWorker = "rideshare/internal/testkit/launchtest/stubworker"

// importImage builds a program and makes an image of this one file, without a registry.
func (b *bench) importImage(ctx context.Context, program, file string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var root bytes.Buffer
	archive := tar.NewWriter(&root)
	if err = archive.WriteHeader(&tar.Header{Name: "rideshare", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err = archive.Write(content); err != nil {
		return err
	}
	if err = archive.Close(); err != nil {
		return err
	}
	answer, err := b.sdk.ImageImport(ctx, image.ImportSource{Source: &root, SourceName: "-"}, b.image,
		image.ImportOptions{Changes: []string{`ENTRYPOINT ["/rideshare"]`}})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	_, err = io.Copy(io.Discard, answer)
	return err
}

func (b *bench) remove() {
	ctx := context.Background()
	_ = b.sdk.NetworkRemove(ctx, b.network)
	_, _ = b.sdk.ImageRemove(ctx, b.image, image.RemoveOptions{Force: true})
	_ = b.sdk.Close()
}

// config is that of a stack of the test's own.
func (b *bench) config(tb testing.TB) docker.Config {
	tb.Helper()
	c, err := docker.Dial(b.host)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	busFile := filepath.Join(tb.TempDir(), "bus")
	if err := os.WriteFile(busFile, []byte("amqp://worker:hidden@broker/\n"), 0o644); err != nil {
		tb.Fatal(err)
	}
	return docker.Config{
		Engine: c, Stack: fmt.Sprintf("%s-%d", runName, stacks.Add(1)), Image: b.image, Network: b.network,
		BusFile: busFile, Coordinator: "zk://zookeeper:2181/test", Session: 6 * time.Second, Persdb: "http://persdb:9530", LogLevel: "info",
		Limits: docker.Limits{User: "65532:65532", Memory: 128 << 20, Replica: 16 << 20, Answers: 16 << 20, CPUs: 1, PIDs: 64},
	}
}

// launcher returns a launcher whose workers are removed after the test.
func (b *bench) launcher(tb testing.TB, c docker.Config) *docker.Launcher {
	tb.Helper()
	l, err := docker.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	l.SetInspectLimit(30 * time.Second) // a slow engine's answer is still an answer
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Errorf("close: %v", err)
		}
		b.sweep(tb, c.Stack)
	})
	return l
}

// sweep removes what a stack has left.
func (b *bench) sweep(tb testing.TB, stack string) {
	tb.Helper()
	for _, id := range b.containers(tb, stack) {
		if err := b.sdk.ContainerRemove(context.Background(), id, container.RemoveOptions{Force: true}); err != nil {
			tb.Errorf("sweep: %v", err)
		}
	}
}

// containers returns the ids of a stack's containers, whatever their state.
func (b *bench) containers(tb testing.TB, stack string) []string {
	tb.Helper()
	found, err := b.sdk.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "rideshare.stack="+stack)),
	})
	if err != nil {
		tb.Fatal(err)
	}
	ids := make([]string, 0, len(found))
	for i := range found {
		ids = append(ids, found[i].ID)
	}
	return ids
}

// dial connects to a container by its name, as the engine's own DNS lets containers do.
func (b *bench) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(name) == nil {
		c, err := b.sdk.ContainerInspect(ctx, name)
		if err != nil {
			return nil, err
		}
		end := c.NetworkSettings.Networks[b.network]
		if end == nil || end.IPAddress == "" {
			return nil, fmt.Errorf("%s has no address", name)
		}
		name = end.IPAddress
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(name, port))
}

func (b *bench) world(l *docker.Launcher) launchtest.StubWorld {
	return launchtest.StubWorld{Launcher: l, Dial: b.dial}
}

// logs is a log that a test reads while others write to it.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
