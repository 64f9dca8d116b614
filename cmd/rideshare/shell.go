package main

import (
	"context"
	"os"
	"path/filepath"

	"rideshare/shell"
)

// shellCommand is `rideshare shell`.
type shellCommand struct {
	URL     string  `arg:"" optional:"" default:"http://127.0.0.1:8083" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator, ${orSeveral} (${default})."`
	Command *string `short:"c" placeholder:"SQL" help:"Run this text instead of standard input."`
	Bail    bool    `env:"SHELL_BAIL" help:"End at the first error, if the input is not a terminal."`
	Mode    string  `default:"table" enum:"table,csv,json,line" env:"SHELL_MODE" help:"Form of results at the start: table, csv, json or line (${default})."`
	History string  `default:"" placeholder:"FILE" env:"RIDESHARE_HISTORY" help:"File of the lines that were typed; /dev/null for none. Default: .rideshare_history in the home folder."`
	clientSettings
}

// Help implements kong's longer help.
func (*shellCommand) Help() string {
	return `A statement ends with ';'. Ctrl-C drops the statement that is typed, or cancels the running one; Ctrl-D ends. '.help' lists the commands.
If standard input or output is not a terminal, there is no prompt and no history, and errors name their lines. The shell
then goes on after an error, unless --bail is given.

Examples:
  rideshare shell                                     against 'rideshare up'
  rideshare shell http://host:8083 --user ann
  rideshare shell http://h1:8083,http://h2:8083       of a cluster; a statement that got no answer is not sent again
  rideshare shell -c "SELECT * FROM users" --mode csv
  rideshare shell --bail < schema.sql

Exit code 0: done. 1: a statement failed, if not typed at a terminal, or there is no orchestrator. 2: wrong usage.`
}

// Run runs the shell.
func (c *shellCommand) Run(ctx context.Context, out *output) error {
	base, transport, err := reachAPI(out, c.URL, shell.Limit)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	_, transfers, err := reachAPI(out, c.URL, shell.LimitTransfers)
	if err != nil {
		return err
	}
	defer transfers.CloseIdleConnections()
	authorization, err := c.authorization(ctx, out)
	if err != nil {
		return err
	}
	return shell.Run(ctx, shell.Config{
		URL: base, Transport: transport, Transfers: transfers, Authorization: authorization, Mode: c.Mode, Bail: c.Bail, Command: c.Command,
		In: os.Stdin, Out: out.stdout, Err: out.stderr, History: c.history(),
	})
}

// history returns the file of the history, "" if there is no home folder for it.
func (c *shellCommand) history() string {
	home, err := os.UserHomeDir()
	if c.History != "" || err != nil {
		return c.History
	}
	return filepath.Join(home, ".rideshare_history")
}
