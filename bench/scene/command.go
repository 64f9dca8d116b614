package scene

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"rideshare/bench/report"
	"rideshare/internal/httpapi"
)

// Scene is one load scene of an example. T is the example's own state of a run.
type Scene[T any] struct {
	Help string
	Play func(context.Context, T)
}

// Command is the command line of an example's load scenes.
type Command[T any] struct {
	Name   string // such as "skilift load"
	Scenes map[string]Scene[T]
	// Flags adds the example's own flags, and Check returns an error if one of their values is wrong.
	Flags func(*flag.FlagSet)
	Check func() error
	// Play plays a scene, and checks what it has written.
	Play func(ctx context.Context, r *Run, scene Scene[T])
}

// Main plays the scene that args name. It returns the exit code: 0 if nothing was wrong, 1 otherwise, 2 for wrong usage.
func (c *Command[T]) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name, s, err := c.parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", c.Name, err) // There is nowhere else to say it.
		return 2
	}
	s.Stdout, s.Stderr = stdout, stderr
	return Play(ctx, name, s, func(ctx context.Context, r *Run) { c.Play(ctx, r, c.Scenes[name]) })
}

func (c *Command[T]) parse(args []string, stderr io.Writer) (name string, s Settings, err error) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(stderr, "%s SCENE [flags]\n\nScenes:\n", c.Name) // for people, as below
		for _, scene := range slices.Sorted(maps.Keys(c.Scenes)) {
			_, _ = fmt.Fprintf(stderr, "  %-14s %s\n", scene, c.Scenes[scene].Help)
		}
		flags.PrintDefaults()
	}
	s.Flags(flags)
	c.Flags(flags)
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err = flags.Parse(args); err != nil {
		return name, s, err
	}
	if c.Scenes[name].Play == nil || flags.NArg() > 0 || !(s.Scale > 0) {
		return name, s, errors.New("want a SCENE of --help, then flags, with a --scale above 0")
	}
	if err = errors.Join(c.Check(), report.CheckFolder("--json", s.JSON), report.CheckFolder("--html", s.HTML)); err != nil {
		return name, s, err
	}
	s.Authorization, err = authorization(s.AuthFile)
	return name, s, err
}

// AtLeast returns an error if one of values is below least. what names their flags in the error. It is for Check.
func AtLeast[T cmp.Ordered](least T, what string, values ...T) error {
	if slices.Min(values) < least {
		return fmt.Errorf("%s must be at least %v", what, least)
	}
	return nil
}

// authorization returns the Authorization header for the first bearer or basic line of a file of credentials; "" if file is "".
func authorization(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // The user names the file.
	if err != nil {
		return "", fmt.Errorf("--auth-file: %w", err)
	}
	header, err := httpapi.ReadAuthorization(bytes.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("--auth-file %s: %w", file, err)
	}
	return header, nil
}
