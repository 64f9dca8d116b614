package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rideshare/bench/report"
	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/restore"
)

// restoreCommand is `rideshare restore`.
type restoreCommand struct {
	From    string     `required:"" placeholder:"ARCHIVE" env:"RESTORE_FROM" help:"Archive, file:///folder or s3://bucket/prefix?endpoint=URL&region=R, or a backup file, as 'rideshare backup' makes it."`
	Data    string     `required:"" placeholder:"DIR" env:"RESTORE_DATA" help:"Data folder to make. It must be missing or empty."`
	Cluster string     `default:"" placeholder:"ID" env:"RESTORE_CLUSTER" help:"Cluster, if the archive holds several."`
	At      string     `default:"" placeholder:"TIME" help:"Restore the last entry that is not after this time, in the form of RFC 3339."`
	Seq     *dbaas.Seq `placeholder:"N" help:"Restore this position. Default: the newest."`
	JSON    string     `name:"json" default:"" placeholder:"FILE" env:"RESTORE_JSON" help:"Write the new folder's cluster id, position, its time, the time of the next entry, and the parent there as JSON."`
	archiveKeys
	sqlLimits `group:"Limits of SQL:"`
}

// archiveKeys is the setting of the commands that read an archive.
type archiveKeys struct {
	ArchiveKeyFile string `default:"" placeholder:"FILE" env:"ARCHIVE_KEY_FILE" help:"Keys of a bucket: the access key in the first line, the secret key in the second, a session token in the third if there is one. Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."`
}

// open returns the archive of a URL.
func (a archiveKeys) open(address string) (place.Place, error) {
	p, err := place.Open(address, a.ArchiveKeyFile)
	if errors.Is(err, place.ErrURL) {
		return nil, usagef("ARCHIVE: %v", err)
	}
	return p, err
}

// Help implements kong's longer help.
func (*restoreCommand) Help() string {
	return `Makes a data folder, with a cluster id of its own, for 'rideshare up --data DIR' or 'rideshare persdb --data DIR'. Stop the system
first. DIR appears whole or not at all: the work is done in .DIR.restoring beside it. The archive is only read.

From an archive come the tables and the stored answers of the position: a write that is repeated with its Idempotency-Key
gets its first answer. A backup file has no stored answers: such a write runs again.

The times of entries are those of persdb's clock, and never go back. After the clock was ahead, entries have the same time until the
clock has reached that time. So look at the two times that the command prints, that of the position and that of the next entry, and
name a position with --seq if they are far apart.

Examples:
  rideshare restore --from file:///backup/rideshare --data ./data
  rideshare restore --from file:///backup/rideshare --at 2026-11-22T05:00:00Z --data ./data
  rideshare restore --from backup.db --data ./data

Exit code 0: done. 1: that cannot be restored. 2: wrong usage, or DIR is not empty.`
}

// Run makes the folder.
func (r *restoreCommand) Run(ctx context.Context, out *output) error {
	limits, limitsErr := r.limits()
	want, err := r.want()
	if err = joinUsage(err, limitsErr); err != nil {
		return err
	}
	progress := newProgress(out.stderr)
	want.Progress = func(seq, last dbaas.Seq) { progress.show("entry %d of %d", seq, last) }
	cfg := commitlog.Config{Dir: r.Data, Schema: rideschema.Create(), Protected: rideschema.Protected(), Limits: limits}
	made, err := r.restore(ctx, cfg, want)
	progress.end()
	if errors.Is(err, restore.ErrTarget) {
		return usagef("--data: %v", err)
	}
	if errors.Is(err, restore.ErrCluster) {
		return usagef("--cluster: %v", err)
	}
	if err != nil {
		return err
	}
	return r.report(out, made)
}

func (r *restoreCommand) isArchive() bool { return strings.Contains(r.From, "://") }

// want returns the position to restore.
func (r *restoreCommand) want() (want restore.Want, err error) {
	if !r.isArchive() && (r.Cluster != "" || r.At != "" || r.Seq != nil) {
		return want, usagef("--cluster, --at and --seq: a backup file has one position; they need an archive, such as file:///folder")
	}
	if r.At != "" && r.Seq != nil {
		return want, usagef("--at and --seq: give one of them")
	}
	if want.Cluster, err = clusterFlag(r.Cluster); err != nil {
		return want, err
	}
	if want.Seq = r.Seq; r.At != "" {
		at, err := time.Parse(time.RFC3339Nano, r.At)
		if err != nil {
			return want, usagef("--at: %q is no time such as 2026-11-22T05:00:00Z", r.At)
		}
		want.At = &at
	}
	return want, nil
}

// clusterFlag reads a cluster id, which may be left out.
func clusterFlag(text string) (id dbaas.ClusterID, err error) {
	if text == "" {
		return id, nil
	}
	if err = id.UnmarshalText([]byte(text)); err != nil {
		return id, usagef("--cluster: %v", err)
	}
	return id, nil
}

func (r *restoreCommand) restore(ctx context.Context, cfg commitlog.Config, want restore.Want) (restore.Made, error) {
	if !r.isArchive() {
		return restore.FromFile(ctx, cfg, r.From)
	}
	p, err := r.open(r.From)
	if err != nil {
		return restore.Made{}, err
	}
	return restore.FromArchive(ctx, cfg, p, want)
}

func (r *restoreCommand) report(out *output, made restore.Made) error {
	if !r.isArchive() {
		const warning = "a backup file has no stored answers: a write that is repeated with its Idempotency-Key runs again\n"
		if _, err := fmt.Fprint(out.stderr, warning); err != nil {
			return err
		}
	}
	if made.Gap != nil {
		const warning = "the archive has a gap here: positions %d to %d cannot be restored\n"
		if _, err := fmt.Fprintf(out.stderr, warning, made.Gap.First, made.Gap.Last); err != nil {
			return err
		}
	}
	times := ""
	if !made.At.IsZero() {
		times = " of " + stamp(made.At)
	}
	if !made.Next.IsZero() {
		times += "; the next entry is of " + stamp(made.Next)
	}
	if _, err := fmt.Fprintf(out.stdout, "%s is cluster %s, at position %d%s\n", r.Data, made.Cluster, made.Seq, times); err != nil {
		return err
	}
	return report.WriteJSON(r.JSON, made)
}
