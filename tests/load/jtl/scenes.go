package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The scenes in which something must have happened, by the names of the plan's thread groups.
const (
	sceneRamp   = "1 ramp"
	sceneBurst  = "3 burst"
	sceneSteady = "5 steady"
	sceneQuiet  = "6 quiet"
)

// scene is the requests of one thread group.
type scene struct {
	elapsed []int // milliseconds, of each request
	failed  int
	reasons map[string]int // of failures
}

// quantile returns the time in which that share of the requests was answered, in milliseconds.
func (s *scene) quantile(share float64) int {
	if len(s.elapsed) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.elapsed))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// scenes is a whole result.
type scenes struct {
	start  time.Time // of the first request
	byName map[string]*scene
}

func (s scenes) names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// readScenes reads a result that JMeter wrote as CSV.
func readScenes(file string) (scenes, error) {
	f, err := os.Open(file) //nolint:gosec // the user names it.
	if err != nil {
		return scenes{}, fmt.Errorf("read the result: %w", err)
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose.
	return parseScenes(f)
}

func parseScenes(r io.Reader) (scenes, error) {
	s := scenes{byName: map[string]*scene{}}
	rows := csv.NewReader(r)
	head, err := rows.Read()
	if err != nil {
		return s, fmt.Errorf("read the result's names: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		column[name] = i
	}
	for _, name := range []string{"timeStamp", "elapsed", "label", "responseCode", "threadName", "success"} {
		if _, ok := column[name]; !ok {
			return s, fmt.Errorf("the result has no column %s; run JMeter with print_field_names and output_format csv", name)
		}
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("read the result: %w", err)
		}
		if err := s.add(func(name string) string { return row[column[name]] }); err != nil {
			return s, err
		}
	}
}

// add takes in one request.
func (s *scenes) add(value func(string) string) error {
	at, err := strconv.ParseInt(value("timeStamp"), 10, 64)
	elapsed, elapsedErr := strconv.Atoi(value("elapsed"))
	if err = errors.Join(err, elapsedErr); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	if begun := time.UnixMilli(at); s.start.IsZero() || begun.Before(s.start) {
		s.start = begun
	}
	// A thread is called after its group, such as "1 ramp 1-7".
	thread := value("threadName")
	name := thread[:max(0, strings.LastIndex(thread, " "))]
	if s.byName[name] == nil {
		s.byName[name] = &scene{reasons: map[string]int{}}
	}
	of := s.byName[name]
	of.elapsed = append(of.elapsed, elapsed)
	if value("success") != "true" {
		of.failed++
		of.reasons[value("label")+" "+value("responseCode")]++
	}
	return nil
}

// check returns nil if every scene was played and no request failed.
func (s scenes) check() error {
	var errs []error
	for _, name := range []string{sceneRamp, sceneBurst, sceneSteady, sceneQuiet} {
		if s.byName[name] == nil {
			errs = append(errs, fmt.Errorf("scene %q has no request", name))
		}
	}
	for _, name := range s.names() {
		if v := s.byName[name]; v.failed > 0 {
			errs = append(errs, fmt.Errorf("scene %q: %d of %d requests failed: %v", name, v.failed, len(v.elapsed), v.reasons))
		}
	}
	return errors.Join(errs...)
}
