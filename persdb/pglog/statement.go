package pglog

import "strings"

// statement is the name of a statement that a session has prepared.
type statement string

const (
	enter      statement = "enter"
	claim      statement = "claim"
	appendNext statement = "append"
	trim       statement = "trim"
	barrier    statement = "barrier"
	release    statement = "release"
	look       statement = "look"
)

// tables creates the log. log_meta has one row: the cluster's id, the fence of the newest session, the newest epoch, the
// newest entry, the last entry that was trimmed, and the owner: the process that began the newest session, or nothing
// after its orderly end. A row of log is a commitlog.Row.
const tables = `
CREATE TABLE IF NOT EXISTS log_meta(one int PRIMARY KEY CHECK(one=1), cluster text NOT NULL, fence bigint NOT NULL,
	epoch bigint NOT NULL, head bigint NOT NULL, trimmed bigint NOT NULL);
CREATE TABLE IF NOT EXISTS log(seq bigint PRIMARY KEY, epoch bigint NOT NULL, at bigint NOT NULL, crc bigint NOT NULL,
	ops bytea NOT NULL, changes bytea NOT NULL);
ALTER TABLE log_meta ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
INSERT INTO log_meta(one, cluster, fence, epoch, head, trimmed) VALUES(1, '', 0, 0, 0, 0) ON CONFLICT DO NOTHING`

// The guards of the statements that write: the conditions under which a commit waits for the disk of a standby, or, with
// Config.Single, for the disk of the server.
const (
	guardPair   = `current_setting('fsync')='on' AND current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('synchronous_standby_names')<>''`
	guardSingle = `current_setting('fsync')='on' AND current_setting('synchronous_commit')<>'off'`
)

// flushedPair is true if a standby that the server waits for has the WAL up to a.lsn on its disk.
const (
	flushedPair   = `EXISTS(SELECT 1 FROM pg_stat_get_wal_senders() w WHERE w.sync_state IN ('sync', 'quorum') AND w.flush_lsn>=a.lsn)`
	flushedSingle = `true`
)

// statements has the text of each statement. The first parameter is the session's fence, with two exceptions. look takes
// the position of the WAL to ask for; if it is empty, the end of the WAL on the server's own disk. enter takes the
// cluster's id, the process, whether it may take a log without an owner, and whether it may take a log from any owner.
//
// Each statement that writes updates the one row of log_meta, whose lock orders them, and returns one row if it did its work.
// current_setting is evaluated when the statement runs.
var statements = map[statement]string{
	enter: `UPDATE log_meta SET fence=fence+1, cluster=$1::text, owner=$2::text
		WHERE (cluster=$1::text OR head=0 AND epoch=0) AND (owner=$2::text OR owner='' AND $3::bool OR $4::bool) AND GUARD RETURNING fence`,
	claim: `UPDATE log_meta SET epoch=epoch+1 WHERE fence=$1::bigint AND GUARD RETURNING epoch`,
	appendNext: `WITH m AS (UPDATE log_meta SET head=$2::bigint
			WHERE fence=$1::bigint AND epoch=$3::bigint AND head=$2::bigint-1 AND GUARD RETURNING 1)
		INSERT INTO log(seq, epoch, at, crc, ops, changes)
		SELECT $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bytea, $7::bytea FROM m RETURNING seq`,
	trim: `WITH m AS (UPDATE log_meta SET trimmed=greatest(trimmed, least($2::bigint, head-1))
			WHERE fence=$1::bigint AND GUARD RETURNING trimmed),
		d AS (DELETE FROM log USING m WHERE log.seq<=m.trimmed)
		SELECT trimmed FROM m`,
	release: `UPDATE log_meta SET owner='' WHERE fence=$1::bigint AND GUARD RETURNING fence`,
	barrier: `UPDATE log_meta SET fence=fence WHERE fence=$1::bigint AND GUARD RETURNING head`,
	look: `SELECT m.cluster, m.fence, m.epoch, m.head, m.trimmed, GUARD, a.lsn::text, FLUSHED, m.owner
		FROM log_meta m, (SELECT coalesce(nullif($1::text, '')::pg_lsn, pg_current_wal_flush_lsn()) AS lsn OFFSET 0) a`,
}

// text returns the text of a statement.
func (s statement) text(single bool) string {
	guard, flushed := guardPair, flushedPair
	if single {
		guard, flushed = guardSingle, flushedSingle
	}
	return strings.NewReplacer("GUARD", "("+guard+")", "FLUSHED", flushed).Replace(statements[s])
}

// read reads entries after $1 up to $2: at most $3 of them, with at most $4 bytes, but at least one. $5 leaves out the
// changes.
const read = `SELECT seq, epoch, at, crc, ops, CASE WHEN $5::bool THEN '\x00'::bytea ELSE changes END
	FROM (SELECT l.*, sum(octet_length(ops)+octet_length(changes)) OVER (ORDER BY seq) AS total
		FROM (SELECT * FROM log WHERE seq>$1::bigint AND seq<=$2::bigint ORDER BY seq LIMIT $3::bigint) l) t
	WHERE total<=$4::bigint OR seq=$1::bigint+1 ORDER BY seq`

// trimmed reads up to where the log was trimmed.
const trimmed = `SELECT trimmed FROM log_meta`
