package system

import (
	"context"
	"fmt"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"
)

// FileLog is the Log.URL of a log in persdb's data folder.
const FileLog = "file"

// Log says where persdb's log is. The zero value means in the data folder.
type Log struct {
	// URL is FileLog or "", or the address of a PostgreSQL database as pglog.Config has it.
	URL string
	// PasswordFile holds the password of the database's user; see pglog.Config.
	PasswordFile string
	// Single accepts one PostgreSQL server without a standby.
	Single bool
}

// file reports whether the log is in the data folder.
func (l Log) file() bool { return l.URL == "" || l.URL == FileLog }

// Check returns an error if the settings cannot be used.
func (l Log) Check() error {
	if l.file() {
		if l.PasswordFile != "" || l.Single {
			return fmt.Errorf("a password file and a single server are settings of a log in PostgreSQL, and the log is a file")
		}
		return nil
	}
	return pglog.Check(l.URL)
}

// Use makes cfg use this log. Opening it waits for the database until ctx ends.
func (l Log) Use(ctx context.Context, cfg *commitlog.Config) {
	if l.file() {
		return
	}
	log := cfg.Log
	cfg.Shared = true
	cfg.OpenLog = func(cluster dbaas.ClusterID) (commitlog.Log, error) {
		return pglog.Open(ctx, pglog.Config{URL: l.URL, PasswordFile: l.PasswordFile, Single: l.Single, Log: log}, cluster)
	}
}
