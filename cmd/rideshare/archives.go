package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"rideshare/bench/report"
	"rideshare/internal/rideschema"
	"rideshare/persdb/archive"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/restore"
)

// archiveCommand is `rideshare archive`.
type archiveCommand struct {
	List    archiveListCommand    `cmd:"" help:"What an archive has: cluster ids, parents, restorable positions and times, gaps, bytes."`
	Verify  archiveVerifyCommand  `cmd:"" help:"A restore drill: read every object, restore, compare, and remove what was restored."`
	Cluster archiveClusterCommand `cmd:"" help:"The cluster id of a data folder: the folder of an archive that has its positions."`
}

// archiveSource holds the settings that both sub-commands of archive have.
type archiveSource struct {
	Archive string `arg:"" placeholder:"ARCHIVE" help:"Archive: file:///folder or s3://bucket/prefix?endpoint=URL&region=R."`
	Cluster string `default:"" placeholder:"ID" env:"ARCHIVE_CLUSTER" help:"Cluster, if the archive holds several."`
	archiveKeys
}

// archiveListCommand is `rideshare archive list`.
type archiveListCommand struct {
	archiveSource
	JSON string `name:"json" default:"" placeholder:"FILE" env:"ARCHIVE_JSON" help:"Write the list there as JSON."`
}

// Help implements kong's longer help.
func (*archiveListCommand) Help() string {
	return `Reads names and the begin of a few objects; 'rideshare archive verify' reads all.

Examples:
  rideshare archive list file:///backup/rideshare
  ARCHIVE_KEY_FILE=keys rideshare archive list 's3://bucket/prefix?endpoint=https://host:9000'

Exit code 0: done. 1: the archive cannot be read, or an object of it is bad. 2: wrong usage.`
}

// Run prints the list.
func (a *archiveListCommand) Run(ctx context.Context, out *output) error {
	id, err := clusterFlag(a.Cluster)
	if err != nil {
		return err
	}
	p, err := a.open(a.Archive)
	if err != nil {
		return err
	}
	all, err := restore.List(ctx, p, id)
	if errors.Is(err, restore.ErrCluster) {
		return usagef("--cluster: %v", err)
	}
	if err != nil {
		return err
	}
	var bad []string
	var text strings.Builder
	for i := range all {
		listing(&text, &all[i])
		bad = append(bad, all[i].Bad...)
	}
	if _, err = io.WriteString(out.stdout, text.String()); err != nil {
		return err
	}
	err = report.WriteJSON(a.JSON, all)
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("bad objects: %s", strings.Join(bad, ", "))
	}
	return err
}

// listing appends the lines of one cluster.
func listing(b *strings.Builder, l *restore.Listed) {
	fmt.Fprintf(b, "cluster %s  %d bytes\n", l.Cluster, l.Bytes)
	if l.Parent != nil {
		fmt.Fprintf(b, "  restored from position %d of cluster %s\n", l.Parent.Seq, l.Parent.Cluster)
	}
	for _, r := range l.Ranges {
		fmt.Fprintf(b, "  positions %d to %d  %s to %s\n", r.First, r.Last, stamp(r.FirstAt), stamp(r.LastAt))
	}
	if len(l.Ranges) == 0 {
		b.WriteString("  nothing can be restored yet: there is no snapshot\n")
	}
	gaps(b, l.Gaps)
	for _, name := range l.Others {
		fmt.Fprintf(b, "  not of an archive: %s\n", name)
	}
}

func gaps(b *strings.Builder, list []archive.Range) {
	for _, g := range list {
		fmt.Fprintf(b, "  gap: positions %d to %d cannot be restored\n", g.First, g.Last)
	}
}

// stamp formats the time of an entry.
func stamp(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// archiveVerifyCommand is `rideshare archive verify`.
type archiveVerifyCommand struct {
	archiveSource
	Temp      string `default:"" placeholder:"DIR" env:"TMPDIR" help:"Where the temporary data folder is made. It needs twice the room of the database. Default: the system's."`
	JSON      string `name:"json" default:"" placeholder:"FILE" env:"ARCHIVE_JSON" help:"Write the report there as JSON."`
	sqlLimits `group:"Limits of SQL:"`
}

// Help implements kong's longer help.
func (*archiveVerifyCommand) Help() string {
	return `Reads every object to its end, makes the tables of each snapshot from the snapshot before it and compares their hashes with
those that persdb computed, and opens the newest position as persdb does. It takes about twice the time of a restore for
each snapshot, and writes nothing to the archive.

Examples:
  rideshare archive verify file:///backup/rideshare

Exit code 0: all is well, or every gap has ended: the newest position can be restored. 1: an object is bad, and standard error names
it, or nothing after some position can be restored. 2: wrong usage.`
}

// Run verifies, and returns an error that says what is bad.
func (a *archiveVerifyCommand) Run(ctx context.Context, out *output) error {
	limits, limitsErr := a.limits()
	id, err := clusterFlag(a.Cluster)
	if err = joinUsage(err, limitsErr); err != nil {
		return err
	}
	p, err := a.open(a.Archive)
	if err != nil {
		return err
	}
	progress := newProgress(out.stderr)
	cfg := commitlog.Config{Dir: a.Temp, Schema: rideschema.Create(), Protected: rideschema.Protected(), Limits: limits}
	verified, err := restore.Verify(ctx, cfg, p, id, func(what string) { progress.show("%s", what) })
	progress.end()
	if errors.Is(err, restore.ErrCluster) {
		return usagef("--cluster: %v", err)
	}
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s  %d objects\n", verified.Cluster, verified.Objects)
	for _, r := range verified.Positions {
		fmt.Fprintf(&b, "  position %d  %s  hash %s  from snapshot %d\n", r.Seq, stamp(r.At), r.Hash, r.Snapshot)
	}
	gaps(&b, verified.Gaps)
	if _, err = io.WriteString(out.stdout, b.String()); err != nil {
		return err
	}
	err = report.WriteJSON(a.JSON, verified)
	if err == nil && len(verified.Bad) > 0 {
		err = fmt.Errorf("the archive is not whole: %s", strings.Join(verified.Bad, "; "))
	}
	return err
}

// archiveClusterCommand is `rideshare archive cluster`.
type archiveClusterCommand struct {
	Data string `arg:"" placeholder:"DIR" help:"Data folder that no process uses."`
}

// Help implements kong's longer help.
func (*archiveClusterCommand) Help() string {
	return `An archive keeps each cluster in a folder that is named by its id. deploy/stack.sh restore reads the id of a data folder here.

Examples:
  rideshare archive cluster ./data

Exit code 0: done. 1: DIR is no data folder. 2: wrong usage.`
}

// Run prints the id.
func (a *archiveClusterCommand) Run(out *output) error {
	id, err := commitlog.ClusterOf(a.Data)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Data, err)
	}
	_, err = fmt.Fprintln(out.stdout, id)
	return err
}
