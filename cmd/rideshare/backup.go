package main

import (
	"context"
	"errors"
	"fmt"

	"rideshare/bench/report"
	"rideshare/shell"
)

// backupCommand is `rideshare backup`.
type backupCommand struct {
	File         string `arg:"" placeholder:"FILE" help:"File to write; - is standard output."`
	Orchestrator string `default:"http://127.0.0.1:8083" placeholder:"URL" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator, ${orSeveral} (${default})."`
	Force        bool   `help:"Replace FILE if it exists."`
	JSON         string `name:"json" default:"" placeholder:"FILE" env:"BACKUP_JSON" help:"Write position, bytes and SHA-256 there as JSON."`
	clientSettings
}

// Help implements kong's longer help.
func (*backupCommand) Help() string {
	return `Writes the tables at one position as an SQLite file, while writes go on. FILE appears whole or not at all. Position, bytes and
SHA-256 are on standard error. 'rideshare restore --from FILE' makes a data folder of it.

Examples:
  rideshare backup backup.db                          of 'rideshare up'
  rideshare backup backup.db --force --user ann --orchestrator https://host:8083
  rideshare backup - | zstd > backup.db.zst

Exit code 0: done. 1: no backup was made. 2: wrong usage, or FILE exists.`
}

// Run makes the backup.
func (b *backupCommand) Run(ctx context.Context, out *output) error {
	base, transport, err := reachAPI(out, b.Orchestrator, shell.LimitTransfers)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	authorization, err := b.authorization(ctx, out)
	if err != nil {
		return err
	}
	progress := newProgress(out.stderr)
	taken, err := shell.Backup(ctx, shell.BackupConfig{
		URL: base, Transport: transport, Authorization: authorization, File: b.File, Replace: b.Force, Out: out.stdout,
		Progress: func(bytes int64) { progress.show("%d MiB", bytes>>20) },
	})
	progress.end()
	if errors.Is(err, shell.ErrExists) {
		return usagef("FILE: %s exists; --force replaces it", b.File)
	}
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(out.stderr, "cluster %s, position %d, %d bytes, SHA-256 %s\n", taken.Cluster, taken.Seq, taken.Bytes, taken.SHA256); err != nil {
		return err
	}
	return report.WriteJSON(b.JSON, taken)
}
