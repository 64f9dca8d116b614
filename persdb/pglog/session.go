package pglog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/persdb/commitlog"
)

// session is a connection with the prepared statements. Its fence is a number that no other session has: a statement
// writes only while the log has the same fence. So a late statement of an older session has no effect. A session without a
// fence only reads.
type session struct {
	*conn

	fence uint64
	least time.Duration // the time limit of a statement with few bytes
}

// answer is the answer of a statement, and of the look at the log after it.
type answer struct {
	done  bool   // the statement did its work, and that is on the disk of a standby
	value uint64 // the first column of the statement's row
	logView
}

// logView is what look returns. If a statement was done, all of it is on the disk of a standby.
type logView struct {
	cluster       string
	fence         uint64
	epoch         dbaas.Epoch
	head, trimmed dbaas.Seq
	guarded       bool   // the settings allow the log to be written
	lsn           string // a position of the WAL after everything that look has seen
	flushed       bool   // a standby has the WAL up to lsn on its disk
	owner         string // the process that began the newest session
}

func (s *logView) bounds() commitlog.Bounds {
	return commitlog.Bounds{Head: dbaas.Head{Seq: s.head, Epoch: s.epoch}, Trimmed: s.trimmed}
}

// lookPause is the pause between two looks at the standbys.
const lookPause = time.Millisecond

// step runs a statement and waits until a standby has it, at most for limit. When the time is over, the socket is closed
// and nothing is cancelled: PostgreSQL would treat a cancelled commit as done, although no standby has it.
//
// Errors are *dbaas.Error: CodeUnknown if the statement may have been, or may still be, carried out; otherwise it was
// not. After an error the session is of no use.
func (s *session) step(limit time.Duration, name statement, params ...[]byte) (answer, error) {
	over := time.AfterFunc(limit, s.close)
	defer over.Stop()
	s.warning = ""
	a, err := s.sendAndLook(name, params)
	if err != nil {
		return answer{}, err
	}
	if a.done {
		if err = s.await(&a.logView); err != nil {
			return answer{}, unknown(errors.Join(errNoStandby, err))
		}
	}
	if s.warning != "" {
		return answer{}, unknown(errors.New("PostgreSQL warns: " + s.warning))
	}
	return a, nil
}

// await looks again until a standby has on its disk everything in seen, or until PostgreSQL warns. From later looks it
// takes only flushed: they may show entries of another process that no standby has.
func (s *session) await(seen *logView) error {
	for !seen.flushed && s.warning == "" {
		wait.For(context.Background(), lookPause)
		later, err := s.look(seen.lsn)
		if err != nil {
			return err
		}
		seen.flushed = later.flushed
	}
	return nil
}

// prove returns what the log holds, once a standby has all of that on its disk. It writes nothing. After an error the
// session is of no use.
func (s *session) prove() (logView, error) {
	over := time.AfterFunc(s.least, s.close)
	defer over.Stop()
	s.warning = ""
	seen, err := s.look("")
	if err == nil {
		err = s.await(&seen)
	}
	if err != nil || !seen.flushed {
		return logView{}, dbaas.WrapError(dbaas.CodeUnavailable, "what the log holds could not be proven", errors.Join(errNoStandby, err))
	}
	if !seen.guarded {
		return logView{}, dbaas.Errorf(dbaas.CodeUnavailable, "the settings of the server do not keep entries")
	}
	return seen, nil
}

var errNoStandby = errors.New("no synchronous standby has it on its disk: see pg_stat_replication")

func unknown(err error) error {
	return dbaas.WrapError(dbaas.CodeUnknown, "the outcome of a statement of the log is not known", err)
}

// sendAndLook sends a statement and a look behind it in one round trip. Each is a transaction of its own: the look
// begins when the commit of the statement has ended.
func (s *session) sendAndLook(name statement, params [][]byte) (answer, error) {
	p := s.pg.StartPipeline(context.Background())
	p.SendQueryPrepared(string(name), params, formats(name), nil)
	p.SendPipelineSync()
	p.SendQueryPrepared(string(look), [][]byte{{}}, nil, nil)
	if err := p.Sync(); err != nil {
		return answer{}, failed(err)
	}
	rows, err := committed(p)
	if err != nil {
		return answer{}, failed(err)
	}
	var a answer
	if a.done = len(rows) == 1; a.done {
		if a.value, err = strconv.ParseUint(string(rows[0][0]), 10, 64); err != nil {
			return answer{}, unknown(err)
		}
	}
	if rows, err = committed(p); err == nil {
		a.logView, err = logViewOf(rows)
	}
	if err = errors.Join(err, p.Close()); err != nil {
		return answer{}, unknown(err)
	}
	return a, nil
}

// formats returns the formats of a statement's parameters: text, but binary for the two of an entry that are bytes.
func formats(name statement) []int16 {
	if name == appendNext {
		return []int16{0, 0, 0, 0, 0, 1, 1}
	}
	return nil
}

// committed returns the rows of the next statement in a pipeline, once its transaction has ended. PostgreSQL commits
// after it has sent the rows.
func committed(p *pgconn.Pipeline) ([][][]byte, error) {
	results, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("got %T in place of rows", results)
	}
	read := reader.Read()
	if read.Err != nil {
		return nil, read.Err
	}
	if results, err = p.GetResults(); err != nil {
		return nil, err
	}
	if _, ok = results.(*pgconn.PipelineSync); !ok {
		return nil, fmt.Errorf("got %T in place of the end of a transaction", results)
	}
	return read.Rows, nil
}

// diskFull is PostgreSQL's code for a disk without room.
const diskFull = "53100"

// failed returns the error of a statement that has no answer. An ERROR of PostgreSQL means that its transaction was
// rolled back; FATAL and all other errors may come after the commit.
func failed(err error) error {
	if pgconn.SafeToRetry(err) {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the statement was not sent", err)
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok || refused.SeverityUnlocalized != "ERROR":
		return unknown(err)
	case refused.Code == diskFull:
		return dbaas.WrapError(dbaas.CodeFull, "the disk of PostgreSQL is full", errors.Join(commitlog.ErrLogFull, err))
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "PostgreSQL refused a statement", err)
}

// look asks whether a standby has the WAL up to lsn.
func (s *session) look(lsn string) (logView, error) {
	result := s.pg.ExecPrepared(context.Background(), string(look), [][]byte{[]byte(lsn)}, nil, nil).Read()
	if result.Err != nil {
		return logView{}, result.Err
	}
	return logViewOf(result.Rows)
}

// logViewOf reads the row of look.
func logViewOf(rows [][][]byte) (logView, error) {
	const columns = 9
	if len(rows) != 1 || len(rows[0]) != columns {
		return logView{}, fmt.Errorf("log_meta has %d rows, want 1", len(rows))
	}
	row := rows[0]
	var numbers [4]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(string(row[i+1]), 10, 64); err != nil {
			return logView{}, fmt.Errorf("log_meta: %w", err)
		}
	}
	return logView{
		cluster: string(row[0]), fence: numbers[0], epoch: dbaas.Epoch(numbers[1]), head: dbaas.Seq(numbers[2]),
		trimmed: dbaas.Seq(numbers[3]), guarded: string(row[5]) == "t", lsn: string(row[6]), flushed: string(row[7]) == "t",
		owner: string(row[8]),
	}, nil
}

const (
	// least is how long a statement with few bytes may take. bytesPerSecond is the rate at which that limit grows with the
	// bytes of the statement, and of an append before it that may still be on its way to the standby.
	least          = time.Second
	bytesPerSecond = 8 << 20
)

// limit returns how long a statement may take.
func limit(least time.Duration, size int) time.Duration {
	return least + time.Duration(size)*time.Second/bytesPerSecond
}
