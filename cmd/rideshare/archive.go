package main

import (
	"time"

	"rideshare/persdb/archive/place"
	"rideshare/system"
)

// archiveSettings are the settings of persdb's archive.
type archiveSettings struct {
	Archive              string        `placeholder:"URL" env:"ARCHIVE_URL" help:"Archive of the database: file:///folder, or s3://bucket/prefix?endpoint=https://host:9000&region=R. Every past position of ARCHIVE_KEEP can be restored from it. Default: none."`
	ArchiveKeyFile       string        `placeholder:"FILE" env:"ARCHIVE_KEY_FILE" help:"Keys of the bucket: access key, secret key and, if there is one, session token, a line each. Read at each request. Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN."`
	ArchiveEvery         time.Duration `default:"1s" env:"ARCHIVE_EVERY" help:"Time after which committed writes are stored in the archive; 4 MiB of writes are stored immediately (${default})."`
	ArchiveSnapshotEvery time.Duration `default:"24h" env:"ARCHIVE_SNAPSHOT_EVERY" help:"Time after which the next snapshot is stored. 1 GiB of the log, and a gap, are also followed by a snapshot (${default})."`
	ArchiveKeep          time.Duration `default:"168h" env:"ARCHIVE_KEEP" help:"Age up to which each position can be restored (${default})."`
	ArchiveBacklog       int64         `default:"4294967296" env:"ARCHIVE_BACKLOG" help:"Bytes of the log that may wait for an archive that does not answer (${default}), as long as the disk has 1 GiB free."`
	ArchiveWhenFull      string        `default:"gap" enum:"gap,stop" env:"ARCHIVE_WHEN_FULL" help:"What happens when the backlog is full: gap (its oldest part is trimmed and cannot be restored) or stop (writes are answered 503 until the archive answers) (${default})."`
}

// archive checks the settings and returns them.
func (a archiveSettings) archive() (system.Archive, error) {
	s := system.Archive{
		URL: a.Archive, KeyFile: a.ArchiveKeyFile, Every: a.ArchiveEvery, SnapshotEvery: a.ArchiveSnapshotEvery,
		Keep: a.ArchiveKeep, Backlog: a.ArchiveBacklog, Stop: a.ArchiveWhenFull == "stop",
	}
	if s.URL == "" {
		return s, nil
	}
	if s.Every < 10*time.Millisecond || s.SnapshotEvery < time.Minute || s.Keep < time.Minute || s.Backlog < 1 {
		return s, usagef("ARCHIVE_EVERY must be at least 10ms, ARCHIVE_SNAPSHOT_EVERY and ARCHIVE_KEEP at least 1m, ARCHIVE_BACKLOG at least 1")
	}
	if _, err := place.Open(s.URL, s.KeyFile); err != nil {
		return s, usagef("--archive: %v", err)
	}
	return s, nil
}
