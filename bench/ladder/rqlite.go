package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// rqliteStart is how long the nodes of rqlite may take until they have a leader, rqliteStop how long until they end.
	rqliteStart = 30 * time.Second
	rqliteStop  = 5 * time.Second
	// rqliteLines is how many lines of the log of each node an error has.
	rqliteLines = 5
)

var (
	errNoLeader  = errors.New("the nodes of rqlite are not in sync behind one leader")
	errNodeEnded = errors.New("rqlite ended")
)

// NeedsRqlite reports whether a path is measured only if Environment.Rqlite is known.
func NeedsRqlite(name string) bool {
	p, _ := pathOf(name)
	return p.sql
}

// serveRqlite runs rqlite in processes of its own. Requests go to its leader.
func serveRqlite(ctx context.Context, s *serving, p path) (addresses, error) {
	c, err := startRqlite(ctx, s.cfg.Rqlite, s.cfg.Dir, p.nodes)
	if err != nil {
		return addresses{}, err
	}
	s.onClose(func(context.Context) error { return c.close() })
	leader, err := c.await(rqliteStart)
	return addresses{Database: leader}, err
}

// rqlite is some nodes of rqlite, each a process.
type rqlite struct {
	ctx   context.Context // ends when a node does, and then ends all nodes
	end   context.CancelCauseFunc
	http  []string // addresses of the nodes
	logs  []string // files
	done  sync.WaitGroup
	ready bool
}

// startRqlite starts the nodes. All settings but their addresses are rqlite's defaults.
func startRqlite(ctx context.Context, program, dir string, nodes int) (*rqlite, error) {
	free, err := freeAddresses(ctx, 2*nodes)
	if err != nil {
		return nil, err
	}
	c := &rqlite{http: free[:nodes]}
	c.ctx, c.end = context.WithCancelCause(ctx)
	raft := free[nodes:]
	for i := range nodes {
		name := "rqlite-" + strconv.Itoa(i+1)
		args := []string{"-node-id", name, "-http-addr", c.http[i], "-raft-addr", raft[i]}
		if nodes > 1 {
			args = append(args, "-bootstrap-expect", strconv.Itoa(nodes), "-join", strings.Join(raft, ","))
		}
		file := filepath.Join(dir, name)
		if err = c.start(file+".log", exec.CommandContext(c.ctx, program, append(args, file)...)); err != nil { //nolint:gosec // the program that the user names.
			return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), c.close())
		}
	}
	return c, nil
}

// start starts a node that writes its log to a file. The node has a process group of its own, so that Ctrl-C reaches only
// this process, which then ends the nodes.
func (c *rqlite) start(file string, cmd *exec.Cmd) error {
	log, err := os.Create(file) //nolint:gosec // a file of this run.
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, rqliteStop
	err = cmd.Start()
	if err = errors.Join(err, log.Close()); err != nil { // the node has its own descriptor
		return err
	}
	c.logs = append(c.logs, file)
	c.done.Go(func() {
		_ = cmd.Wait() // how it ended is in its state.
		c.end(fmt.Errorf("%w: %v: %v", errNodeEnded, cmd, cmd.ProcessState))
	})
	return nil
}

// await returns the address of the leader once all nodes follow it.
func (c *rqlite) await(limit time.Duration) (leader string, err error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, fmt.Errorf("rqlite is not ready within %v", limit))
	defer cancel()
	err = poll(ctx, startPoll, errNoLeader, func() (bool, error) {
		leader, err = rqliteLeader(ctx, "http://"+c.http[0], len(c.http))
		return err == nil, nil
	})
	if err != nil {
		return "", errors.Join(context.Cause(ctx), c.lastLines())
	}
	c.ready = true
	return leader, nil
}

// close ends the nodes. That a node had ended before is an error, unless await has told it.
func (c *rqlite) close() error {
	c.end(nil)
	c.done.Wait()
	if err := context.Cause(c.ctx); c.ready && errors.Is(err, errNodeEnded) {
		return errors.Join(err, c.lastLines())
	}
	return nil
}

// lastLines returns the end of the log of each node.
func (c *rqlite) lastLines() error {
	var errs []error
	for _, file := range c.logs {
		text, err := os.ReadFile(file) //nolint:gosec // a file of this run.
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		errs = append(errs, err, fmt.Errorf("%s: %s", filepath.Base(file), strings.Join(lines[max(0, len(lines)-rqliteLines):], "\n")))
	}
	return errors.Join(errs...)
}

// freeAddresses returns local addresses on which nothing listens.
func freeAddresses(ctx context.Context, n int) (free []string, err error) {
	for range n {
		l, listenErr := (&net.ListenConfig{}).Listen(ctx, "tcp", anyPort)
		if listenErr != nil {
			return nil, errors.Join(err, listenErr)
		}
		defer func() { err = errors.Join(err, l.Close()) }() // after all: no address comes twice
		free = append(free, l.Addr().String())
	}
	return free, nil
}

// rqliteLeader asks a node for the address of the leader, and returns an error unless all nodes follow the leader and have
// its log.
func rqliteLeader(ctx context.Context, url string, nodes int) (string, error) {
	text, err := ask(ctx, http.MethodGet, url+"/nodes?ver=2&timeout=1s", nil)
	if err != nil {
		return "", err
	}
	type node struct {
		URL       string `json:"api_addr"`
		Reachable bool   `json:"reachable"`
		Leader    bool   `json:"leader"`
	}
	var got struct {
		Nodes []node `json:"nodes"`
	}
	if err = json.Unmarshal(text, &got); err != nil {
		return "", fmt.Errorf("decode the nodes: %w", err)
	}
	leader := slices.IndexFunc(got.Nodes, func(n node) bool { return n.Leader })
	if leader < 0 || len(got.Nodes) != nodes {
		return "", fmt.Errorf("%w: %s", errNoLeader, text)
	}
	for _, n := range got.Nodes {
		if !n.Reachable {
			return "", fmt.Errorf("%w: %s", errNoLeader, text)
		}
		if _, err = ask(ctx, http.MethodGet, n.URL+"/readyz?sync&timeout=1s", nil); err != nil {
			return "", err
		}
	}
	return got.Nodes[leader].URL, nil
}

// followLeader sends the following requests to the node that leads now, once all nodes have its log.
func (t *target) followLeader(ctx context.Context) error {
	var last error
	err := poll(ctx, startPoll, errBehind, func() (bool, error) {
		var leader string
		if leader, last = rqliteLeader(ctx, t.addresses.Database, t.nodes); last == nil {
			t.addresses.Database = leader
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
