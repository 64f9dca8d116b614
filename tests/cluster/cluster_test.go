// Package cluster tests three hosts on this machine, each a network with containers of its own, as deploy/cluster makes them: each host
// is killed, paused and cut off under load, and then each leader is killed alone. No acknowledged write is lost or doubled, and each
// time all is whole again when the host returns.
//
// It needs a Docker engine and root, for the rules that drop packets. CLUSTER_ROUNDS repeats all losses, and CLUSTER_RATE sets the
// writes and the reads of a second. To the file that CLUSTER_FIGURES names each loss adds a line, and the table is that of all
// its lines; TestFigures prints it alone.
package cluster

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	// away is how long a host stays lost: longer than any session, so that everything notices.
	away = 15 * time.Second
	// backLimit bounds how long writes may be away after a loss; it only ends a broken run. CLUSTER.md has the times that are reached.
	backLimit = 90 * time.Second
	// wholeGoal is far more than the cluster usually takes to be whole again.
	wholeGoal = time.Minute
	// wholeLimit bounds how long the cluster may take to be whole again after a host has returned.
	wholeLimit = 4 * time.Minute
)

// TestCluster loses every host in every way, and every leader.
func TestCluster(t *testing.T) {
	testenv.Docker(t)
	if os.Geteuid() != 0 {
		testenv.Cannot(t, false, "cutting a host off needs root")
	}
	c := newCluster(t)
	l := startLoad(t, c)
	r := startRegisters(t, c)
	report := newReport(t)
	for round := range number(t, "CLUSTER_ROUNDS", 1) {
		c.loseAll(t, l, report, round)
	}
	report.print(t)
	l.stop()
	l.keepFailed(t)
	if t.Failed() {
		c.keepLogs(t, c.began)
	}
	r.stop()
	c.awaitWhole(t)
	t.Run("acknowledged", l.verify)
	t.Run("registers", r.verify)
	t.Run("check", c.check)
	t.Run("goals", report.verify)
}

// loseAll loses each host in each way, and each leader. It ends at the first loss after which the cluster is not whole.
func (c *cluster) loseAll(t *testing.T, l *load, r *report, round int) {
	t.Helper()
	for _, kind := range []loss{kill, pause, cut} {
		for _, h := range c.hosts {
			if !t.Failed() {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, h.name, round), func(t *testing.T) { r.add(t, c.lose(t, l, kind, h)) })
			}
		}
	}
	for _, leader := range leaders {
		if !t.Failed() {
			t.Run(fmt.Sprintf("leader/%s/%d", leader, round), func(t *testing.T) { r.add(t, c.loseLeader(t, l, leader)) })
		}
	}
}

// number returns the positive number in an environment variable.
func number(t *testing.T, variable string, normal int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(normal)))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a positive number", variable, os.Getenv(variable))
	}
	return n
}

// lose loses a host for a while, and waits until all is whole again.
func (c *cluster) lose(t *testing.T, l *load, kind loss, h *host) outcome {
	t.Helper()
	o := outcome{Kind: string(kind), Host: h.name, Led: c.ledBy(t, h)}
	_ = l.stoodStill() // what was before does not count
	begin := time.Now()
	c.strike(t, kind, h)
	if o.leads("postgres") {
		o.Promotion = c.promote(t, h)
	}
	l.awaitBack(t)
	testenv.Eventually(t, away+time.Minute, l.ranUntil(begin.Add(away)))
	returned := time.Now()
	c.heal(t, kind, h)
	c.awaitWhole(t)
	o.measure(l, begin, returned, time.Now())
	c.keepMissed(t, o, begin)
	return o
}

// loseLeader kills the container of a leader alone.
func (c *cluster) loseLeader(t *testing.T, l *load, leader string) outcome {
	t.Helper()
	h := c.leaderOf(t, leader)
	o := outcome{Kind: "leader", Host: h.name, Led: []string{leader}}
	_ = l.stoodStill() // what was before does not count
	begin := time.Now()
	id := h.container(t, leader)
	docker(t, "kill", id)
	if leader == "postgres" {
		o.Promotion = c.promote(t, h)
	}
	l.awaitBack(t)
	returned := time.Now()
	docker(t, "start", id)
	c.awaitWhole(t)
	o.measure(l, begin, returned, time.Now())
	c.keepMissed(t, o, begin)
	return o
}

// keepMissed keeps the logs of a loss that has missed a goal, or after which the cluster took long to be whole.
func (c *cluster) keepMissed(t *testing.T, o outcome, begin time.Time) {
	t.Helper()
	missed := o.missed()
	if o.Whole > wholeGoal {
		missed = append(missed, fmt.Sprintf("whole only after %s, want at most %s", seconds(o.Whole), seconds(wholeGoal)))
	}
	if len(missed) > 0 {
		t.Log("goals missed: " + strings.Join(missed, "; "))
		c.keepLogs(t, begin)
	}
}
