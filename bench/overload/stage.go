package overload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/internal/wait"
)

// stage is where a scene is played: the system, and the result so far.
type stage struct {
	cfg        Config
	result     *Result
	url        string
	client     *api.Client
	run        string // names the rows of this run
	writes     ledger.Writes[int64]
	sent       counter // of writes
	protection api.Protection
}

const (
	// callTimeout is the deadline of a request to a system that is started here, and the default of any other.
	callTimeout = 5 * time.Second
	// answerLimit is longer than any answer may take.
	answerLimit = 20 * time.Second
	// connections is how many connections stay open between requests.
	connections = 8192
	pollEvery   = 50 * time.Millisecond
)

func (s *stage) connect(url string) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true, IdleConnTimeout: 30 * time.Second}
	s.cfg.TLS.Trust(transport)
	all := &api.Client{HTTP: &http.Client{Transport: transport}, Authorization: s.cfg.Authorization, Timeout: answerLimit}
	var err error
	if s.client, err = all.At(url, s.cfg.TLS); err != nil {
		return fmt.Errorf("the orchestrator: %w", err)
	}
	s.url, s.run = s.client.Base, uuid.NewString()[:8]
	s.protection = api.Protection{Client: s.client, URL: s.url}
	return nil
}

func (s *stage) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.cfg.Progress, format+"\n", args...) // progress only.
}

// prepare makes the tables, and sets the limit of the lanes.
func (s *stage) prepare(ctx context.Context) error {
	statements := append(tables(), fillRows(s.cfg.Rows)...)
	_, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return s.client.Send(ctx, http.MethodPost, s.url+"/db/execute?transaction", statements)
	}, http.StatusOK)
	if err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	if s.cfg.LaneLimit == nil {
		return nil
	}
	return s.patch(ctx, "lanes", map[string]any{"read": s.cfg.LaneLimit, "write": s.cfg.LaneLimit})
}

// patch changes a setting of the protection from overload.
func (s *stage) patch(ctx context.Context, name string, value any) error {
	return s.protection.Patch(ctx, map[string]any{name: value})
}

// settle waits until no request is in flight, so that no request of the previous stage affects the next one.
func (s *stage) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		status, err := s.protection.Status(ctx)
		if err != nil {
			return err
		}
		if stage := status.Stages["inflight"]; stage == nil || stage.Now == nil || *stage.Now == 0 {
			return nil
		}
		if !wait.For(ctx, pollEvery) {
			return errors.New("requests of the stage before are still in flight")
		}
	}
}

// pageOfWrites is how many writes one query of verify reads back, so that no query takes too long for the system.
const pageOfWrites = 1_000

// verify compares the rows of the run with what was acknowledged.
func (s *stage) verify(ctx context.Context) error {
	var check ledger.Check
	found := map[int64]int{}
	for from, last := int64(0), s.sent.Load(); from <= last; from += pageOfWrites {
		page, err := s.rowsOf(ctx, from, from+pageOfWrites)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		for _, row := range page {
			if row[1]%rowsPerWrite != 0 {
				check.Wrong.Add("write %d has %d rows, want %d", row[0], row[1], rowsPerWrite)
			}
			found[row[0]] = int(row[1] / rowsPerWrite)
		}
	}
	s.writes.Compare(&check, "write", found)
	s.result.check("acknowledged writes that are missing, doubled or in part", check.Missing.Count+check.Doubled.Count+check.Wrong.Count, 0)
	s.result.check("refused writes that were done all the same", check.Unasked.Count+len(found), 0)
	return nil
}

// rowsOf returns the number and the count of rows of each write with a number in [from, before).
func (s *stage) rowsOf(ctx context.Context, from, before int64) ([][2]int64, error) {
	r, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return s.client.Send(ctx, http.MethodPost, s.url+"/db/query?level=linearizable",
			[]any{[]any{"SELECT n, count(*) FROM scene_writes WHERE run = ? AND n >= ? AND n < ? GROUP BY n", s.run, from, before}})
	}, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var got struct {
		Results []struct {
			Values [][2]int64 `json:"values"`
			Error  string     `json:"error"`
		} `json:"results"`
	}
	if err = json.Unmarshal(r.Body, &got); err != nil || len(got.Results) != 1 || got.Results[0].Error != "" {
		return nil, fmt.Errorf("got %.200s: %w", r.Body, err)
	}
	return got.Results[0].Values, nil
}
