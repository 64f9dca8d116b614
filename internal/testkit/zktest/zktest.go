// Package zktest starts an ensemble of three ZooKeeper servers that one test may break.
package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// size is the number of servers.
const size = 3

// Limits of a wait for the ensemble, and of one question to a server, which may be paused.
const (
	patience = 2 * time.Minute
	askLimit = time.Second
)

// Ensemble is three ZooKeeper servers with tickTime=1000 initLimit=10 syncLimit=4. It ends with the test.
type Ensemble struct {
	// Servers can be killed, paused, resumed and started. Start returns when the server answers, so a majority must run
	// then.
	Servers []*testenv.Service

	// links[i][j] carries what server i sends to server j while j leads. All are nil if the servers cannot be cut off.
	links [size][size]*testenv.Network
}

// Start starts an ensemble, which takes some 5 s, and returns when all its servers answer.
func Start(tb testing.TB) *Ensemble {
	tb.Helper()
	return start(tb, false)
}

// StartCuttable starts an ensemble whose servers can be cut off from each other. Elections take longer in it, some 10 s.
func StartCuttable(tb testing.TB) *Ensemble {
	tb.Helper()
	return start(tb, true)
}

func start(tb testing.TB, cuttable bool) *Ensemble {
	tb.Helper()
	e := &Ensemble{}
	var quorum, election [size]string
	for i := range size {
		quorum[i], election[i] = testenv.FreeAddress(tb), testenv.FreePort(tb)
	}
	base := tb.TempDir()
	var dirs []string
	for i := range size {
		lines := []string{"initLimit=10", "syncLimit=4"}
		for j := range size {
			address := quorum[j]
			if cuttable && i != j {
				e.links[i][j] = testenv.NewNetwork(tb, "tcp://"+quorum[j])
				address = e.links[i][j].Addr()
			}
			lines = append(lines, fmt.Sprintf("server.%d=%s:%s", j+1, address, election[j]))
		}
		dirs = append(dirs, filepath.Join(base, strconv.Itoa(i+1)))
		for name, text := range map[string]string{
			"ensemble.cfg": strings.Join(lines, "\n"), "client.port": testenv.FreePort(tb), "data/myid": strconv.Itoa(i + 1),
		} {
			write(tb, filepath.Join(dirs[i], "zookeeper", name), text)
		}
	}
	e.Servers = testenv.StartZooKeepers(tb, dirs)
	return e
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text+"\n"), 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Addresses returns host:port of every server.
func (e *Ensemble) Addresses() []string {
	var all []string
	for _, s := range e.Servers {
		all = append(all, strings.TrimPrefix(s.URL, "zk://"))
	}
	return all
}

// URL names every server.
func (e *Ensemble) URL() string { return "zk://" + strings.Join(e.Addresses(), ",") }

// Cut lets nothing pass between a server and the others, except votes. Clients still reach it. If it leads, the others
// choose another leader. The ensemble is a cuttable one.
func (e *Ensemble) Cut(server int) {
	e.eachLink(server, (*testenv.Network).Cut)
}

// Heal ends a Cut.
func (e *Ensemble) Heal(server int) {
	e.eachLink(server, (*testenv.Network).Heal)
}

func (e *Ensemble) eachLink(server int, do func(*testenv.Network)) {
	for other := range size {
		if other != server {
			do(e.links[server][other])
			do(e.links[other][server])
		}
	}
}

// Leader waits until exactly one server leads and another one follows, and returns the leader.
func (e *Ensemble) Leader(tb testing.TB) int {
	tb.Helper()
	leader := -1
	testenv.Eventually(tb, patience, func() error {
		leaders, followers := e.modes()
		if len(leaders) != 1 || followers == 0 {
			return fmt.Errorf("leaders %v, %d followers", leaders, followers)
		}
		leader = leaders[0]
		return nil
	})
	return leader
}

// AwaitWhole waits until every server serves.
func (e *Ensemble) AwaitWhole(tb testing.TB) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		if leaders, followers := e.modes(); len(leaders) != 1 || followers != size-1 {
			return fmt.Errorf("leaders %v, %d followers", leaders, followers)
		}
		return nil
	})
}

// modes returns the servers that lead, and how many follow. A server that is paused or has no quorum does neither.
func (e *Ensemble) modes() (leaders []int, followers int) {
	for i := range size {
		switch answer, _ := e.ask(i, "srvr"); {
		case strings.Contains(answer, "Mode: leader"):
			leaders = append(leaders, i)
		case strings.Contains(answer, "Mode: follower"):
			followers++
		}
	}
	return leaders, followers
}

// errNoServer is returned while no server has a connection of the session.
var errNoServer = errors.New("no server has a connection of the session")

// ServerOf returns the server to which a session is connected. A server that is paused is not asked in time.
func (e *Ensemble) ServerOf(session int64) (int, error) {
	for i := range size {
		if answer, _ := e.ask(i, "cons"); strings.Contains(answer, fmt.Sprintf("sid=0x%x,", session)) {
			return i, nil
		}
	}
	return 0, errNoServer
}

// ask returns a server's answer to a command of four letters.
func (e *Ensemble) ask(server int, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.Addresses()[server])
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err = conn.SetDeadline(deadline); err == nil {
		_, err = io.WriteString(conn, command)
	}
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	return string(answer), nil
}
