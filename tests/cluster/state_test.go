package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
)

// leaders are the parts of which one is the leader, by the names of their containers.
var leaders = []string{"postgres", "rabbitmq", "zookeeper", "persdb", "orchestrator"}

// lookAgain is the pause between two looks at the whole cluster, which take processor time from it.
const lookAgain = time.Second

// members is the part of GET /api/v1/cluster that the tests look at.
type members struct {
	Members []struct {
		Role  string
		Host  string
		Ready bool
		Lag   uint64
	}
	DesiredSlaves int `json:"desired_slaves"`
	Leader        bool
}

// get asks one host for a document.
func (c *cluster) get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", c.authorization)
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: got %s %s, want 200", url, resp.Status, text)
	}
	return string(text), err
}

func (h *host) orchestrator() string { return "https://" + h.address + ":8083" }

func (c *cluster) members(ctx context.Context, h *host) (m members, err error) {
	text, err := c.get(ctx, h.orchestrator()+"/api/v1/cluster")
	if err == nil {
		err = json.Unmarshal([]byte(text), &m)
	}
	return m, err
}

// is reports whether the host has the leader of a part.
func (c *cluster) is(t *testing.T, h *host, leader string) (bool, error) {
	t.Helper()
	switch leader {
	case "postgres":
		said, err := c.psql(t.Context(), h, "SELECT pg_is_in_recovery()")
		return said == "f", err
	case "rabbitmq":
		said, err := h.exec(t, "rabbitmq", "rabbitmqctl", "-q", "--no-table-headers", "list_queues", "name", "leader")
		return strings.Contains(said, "writeQ.v3\trabbit@"+h.address), err
	case "zookeeper":
		said, err := h.zookeeper(t)
		return strings.Contains(said, "Mode: leader"), err
	case "persdb":
		said, err := c.get(t.Context(), "https://"+h.address+":9530/metrics")
		return strings.Contains(said, "rideshare_persdb_active 1"), err
	case "orchestrator":
		m, err := c.members(t.Context(), h)
		return m.Leader, err
	default: // master
		m, err := c.members(t.Context(), h)
		for _, member := range m.Members {
			if member.Role == "master" && member.Host == h.name {
				return true, err
			}
		}
		return false, err
	}
}

// ledBy returns what the host leads.
func (c *cluster) ledBy(t *testing.T, h *host) []string {
	t.Helper()
	var led []string
	for _, leader := range append(slices.Clone(leaders), "master") {
		is, err := c.is(t, h, leader)
		if err != nil {
			t.Fatal(err)
		}
		if is {
			led = append(led, leader)
		}
	}
	return led
}

func (c *cluster) leaderOf(t *testing.T, leader string) *host {
	t.Helper()
	var found *host
	testenv.Eventually(t, wholeLimit, func() error {
		for _, h := range c.hosts {
			if is, err := c.is(t, h, leader); err != nil {
				return err
			} else if is {
				found = h
				return nil
			}
		}
		return fmt.Errorf("no host has the leader of %s", leader)
	})
	return found
}

// psql returns the only value in the answer of the host's PostgreSQL.
func (c *cluster) psql(ctx context.Context, h *host, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	server := pgtest.Place{URL: "postgres://postgres@" + h.address + ":5432/postgres", PasswordFile: filepath.Join(c.dir, h.name, "secrets", "postgres-superuser")}
	rows, err := server.Ask(ctx, question)
	if err != nil {
		return "", err
	}
	return rows[0][0], nil
}

// zookeeper asks the host's server what it is.
func (h *host) zookeeper(t *testing.T) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), askLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.address+":2181")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err = conn.SetDeadline(time.Now().Add(askLimit)); err != nil {
		return "", err
	}
	if _, err = io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}

// awaitWhole waits until every part of every host serves, and each replica of each part is current.
func (c *cluster) awaitWhole(t *testing.T) {
	t.Helper()
	c.awaitSystem(t)
	if _, err := c.runScript(t, "whole"); err != nil {
		t.Fatal(err)
	}
	c.awaitSystem(t)
}

func (c *cluster) awaitSystem(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error {
		err := c.wholeSystem(t)
		if err != nil {
			time.Sleep(lookAgain)
		}
		return err
	})
}

// wholeSystem asks more than cluster.sh whole: the number of the workers, and on how many hosts they are.
func (c *cluster) wholeSystem(t *testing.T) error {
	t.Helper()
	var errs []error
	for _, h := range c.hosts {
		_, err := c.get(t.Context(), h.orchestrator()+"/readyz")
		_, gateway := c.get(t.Context(), "https://"+h.address+":8080/readyz")
		m, failed := c.members(t.Context(), h)
		errs = append(errs, err, gateway, failed)
		masters, slaves, hosts := 0, 0, map[string]bool{}
		for _, member := range m.Members {
			if !member.Ready {
				continue
			}
			hosts[member.Host] = true
			if member.Role == "master" {
				masters++
			} else {
				slaves++
			}
		}
		if masters != 1 || slaves != m.DesiredSlaves || len(hosts) < 2 {
			errs = append(errs, fmt.Errorf("%s sees %d masters and %d of %d slaves ready on %d hosts, want one master, all slaves, and two hosts at least", h.name, masters, slaves, m.DesiredSlaves, len(hosts)))
		}
	}
	return errors.Join(errs...)
}

// runScript runs a verb of cluster.sh for the first host.
func (c *cluster) runScript(t *testing.T, verb string) (string, error) {
	t.Helper()
	h := c.hosts[0]
	return c.run(t.Context(), "env", "PROJECT="+h.project, "HOST_NETWORK=container:"+h.project, fmt.Sprintf("WAIT_LIMIT=%.0f", wholeLimit.Seconds()),
		"./deploy/cluster/cluster.sh", verb, filepath.Join(c.dir, h.name))
}

// check is `rideshare check` of the whole system.
func (c *cluster) check(t *testing.T) {
	t.Helper()
	out, err := c.runScript(t, "check")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}
