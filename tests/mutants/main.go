// Command mutants proves the tests: it breaks the code in one place after the other and demands that a test turns red.
//
// Each breakage is a patch beside this file. Its head says what it breaks, and names the tests that guard it:
//
//	Red: ./persdb/commitlog TestStore_Commit_Fencing
//
// Without the name of a test, all tests of the package run, and one of them must turn red.
//
// The tree stays as it is: the tests run with go's -overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	pattern := flag.String("run", "", "only patches whose names match this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runAll(ctx, os.Stdout, ".", filepath.Join("tests", "mutants"), *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// runAll tries the patches in dir on the tree at root and prints a line for each test. It returns an error unless all were red.
func runAll(ctx context.Context, out io.Writer, root, dir, pattern string) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	mutants, err := load(dir, match)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rideshare-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var bad []error
	for _, m := range mutants {
		overlay, broken := m.apply(ctx, root, filepath.Join(scratch, m.name))
		if broken == nil {
			broken = compile(ctx, root, overlay)
		}
		for _, g := range m.guards {
			began, err := time.Now(), broken
			if err == nil {
				err = g.mustTurnRed(ctx, root, overlay)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			verdict := "red"
			if err != nil {
				verdict = "NOT RED"
				bad = append(bad, fmt.Errorf("%s: %w", m.name, err))
			}
			_, _ = fmt.Fprintf(out, "%-8s %5.1f s  %-34s %s\n", verdict, time.Since(began).Seconds(), m.name, g)
		}
	}
	_, _ = fmt.Fprintf(out, "%d mutants, %d not red\n", len(mutants), len(bad))
	return errors.Join(bad...)
}

// mustTurnRed returns an error unless the test passes without the overlay and fails with it.
func (g guard) mustTurnRed(ctx context.Context, root, overlay string) error {
	if err := g.run(ctx, root, ""); err != nil {
		return fmt.Errorf("%s fails on the tree as it is: %w", g, err)
	}
	switch err := g.run(ctx, root, overlay); {
	case err == nil:
		return fmt.Errorf("%s stays green", g)
	case errors.Is(err, errNoBuild):
		return err
	}
	return nil
}
