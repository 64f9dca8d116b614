package ladder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"rideshare/internal/wait"
)

// failoverLoad sends writes and reads at a constant rate. Each write adds a row with a unique name.
type failoverLoad struct {
	f      *failover
	table  string
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	writes []answered
	reads  []answered
}

// answered is one call.
type answered struct {
	name     string
	due, end time.Time
	status   int // 0 for no answer
}

func (f *failover) startLoad(ctx context.Context) (*failoverLoad, error) {
	l := &failoverLoad{f: f, table: "failover_" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	err := f.call(ctx, http.MethodPost, "/db/execute", []string{"CREATE TABLE " + l.table + "(n INTEGER PRIMARY KEY, name TEXT NOT NULL)"}, nil)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	f.load = l
	l.all.Go(func() { l.every(running, f.Writes, l.write) })
	l.all.Go(func() { l.every(running, f.Reads, l.read) })
	return l, nil
}

// end stops the load and waits for the answers. It is safe to call twice.
func (l *failoverLoad) end() {
	l.cancel()
	l.all.Wait()
}

// every makes rate calls per second until ctx ends, each when it is due.
func (l *failoverLoad) every(ctx context.Context, rate int, call func(context.Context, int, time.Time)) {
	if rate <= 0 {
		return
	}
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if !wait.For(ctx, time.Until(due)) {
			return
		}
		l.all.Go(func() { call(context.WithoutCancel(ctx), i, due) })
	}
}

func (l *failoverLoad) write(ctx context.Context, i int, due time.Time) {
	name := l.table + "-" + strconv.Itoa(i)
	status, body, err := l.f.send(ctx, http.MethodPost, "/db/execute", []any{[]any{"INSERT INTO " + l.table + "(name) VALUES(?)", name}}, name)
	if err != nil || status == http.StatusOK && strings.Contains(string(body), `"error"`) {
		status = 0
	}
	l.note(&l.writes, answered{name: name, due: due, end: time.Now(), status: status})
}

func (l *failoverLoad) read(ctx context.Context, _ int, due time.Time) {
	status, body, err := l.f.send(ctx, http.MethodPost, "/db/query", []any{"SELECT count(*) FROM " + l.table}, "")
	if err != nil || status == http.StatusOK && strings.Contains(string(body), `"error"`) {
		status = 0
	}
	l.note(&l.reads, answered{due: due, end: time.Now(), status: status})
}

func (l *failoverLoad) note(list *[]answered, a answered) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, a)
}

// compare checks the database for acknowledged writes that are missing or doubled.
func (l *failoverLoad) compare(ctx context.Context, report *FailoverReport) error {
	var got struct {
		Results []struct {
			Values [][]any `json:"values"`
			Error  string  `json:"error"`
		} `json:"results"`
	}
	if err := l.f.call(ctx, http.MethodPost, "/db/query?level=linearizable", []string{"SELECT name, count(*) FROM " + l.table + " GROUP BY name"}, &got); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if len(got.Results) != 1 || got.Results[0].Error != "" {
		return fmt.Errorf("read back: got %+v, want one result", got)
	}
	found := map[string]float64{}
	for _, row := range got.Results[0].Values {
		name, named := row[0].(string)
		n, counted := row[1].(float64)
		if !named || !counted {
			return errors.New("read back: a row is no name and number")
		}
		found[name] = n
		if n > 1 {
			report.Doubled++
		}
	}
	for _, w := range l.writes {
		if w.status == http.StatusOK && found[w.name] == 0 {
			report.Lost++
		}
	}
	return l.f.call(ctx, http.MethodPost, "/db/execute", []string{"DROP TABLE " + l.table}, nil)
}

// change is an event of the control loop, with its time of arrival.
type change struct {
	at     time.Time
	PID    int    `json:"pid"`
	Role   string `json:"role"`
	Change string `json:"change"`
}

// watch collects the control loop's events until ctx ends, and then sends them.
func (f *failover) watch(ctx context.Context) <-chan []change {
	out := make(chan []change, 1)
	go func() { // ends with ctx
		var changes []change
		for ctx.Err() == nil {
			changes = append(changes, f.stream(ctx)...)
			wait.For(ctx, pollEvery)
		}
		out <- changes
	}()
	return out
}

// stream reads one stream of events to its end.
func (f *failover) stream(ctx context.Context) []change {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/api/v1/events", http.NoBody)
	if err != nil {
		return nil
	}
	resp, err := (&http.Client{Transport: f.http.Transport}).Do(req) // without a timeout
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }() // it is over.
	var changes []change
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		c := change{at: time.Now()}
		if ok && json.Unmarshal([]byte(data), &c) == nil && c.Change != "" {
			changes = append(changes, c)
		}
	}
	return changes
}
