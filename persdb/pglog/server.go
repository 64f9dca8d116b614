package pglog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rideshare/internal/dbaas"
)

const (
	// connectLimit is how long a connection, or a question on a new one, may take. A paused host accepts connections and
	// does not answer.
	connectLimit = 2 * time.Second
	// lockLimit ends a statement with an ERROR if it waits for a lock that a commit holds while that commit waits for a
	// standby. Without lockLimit each attempt would leave another waiting process on the server.
	lockLimit = "800ms"
)

// server is one of the servers of Config.URL.
type server struct {
	address      string
	config       *pgconn.Config
	passwordFile string
	limit        time.Duration // connectLimit
	least        time.Duration // the time limit of a statement with few bytes
	silent       time.Time     // when a call of it last took too long; the holder of the turn owns it
	silence      time.Duration // silence
}

// silence is for how long a server that did not answer in time is tried after the others. During that time an attempt to
// connect to it may take only connectLimit/silentShare, since no other server is tried meanwhile.
const (
	silence     = 3 * time.Second
	silentShare = 6
)

func (s *server) isSilent() bool { return time.Since(s.silent) < s.silence }

// heard notes how a call of the server has ended.
func (s *server) heard(err error) {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) { // a timer has closed the socket of a statement
		s.silent = time.Now()
	}
}

// Check returns CodeInvalid if the URL of a log cannot be used. It does not connect.
func Check(address string) error {
	_, err := parse(Config{URL: address})
	return err
}

// parse returns the servers of a log.
func parse(cfg Config) ([]*server, error) {
	if !strings.HasPrefix(cfg.URL, "postgres://") && !strings.HasPrefix(cfg.URL, "postgresql://") {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "the log's address is not file, and does not begin with postgres://")
	}
	// An error of pgx shows the URL, with the passwords masked that pgx would take from it.
	if !strings.Contains(pgconn.NewParseConfigError(cfg.URL, "", nil).Error(), cfg.URL) {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "the log's address has a password, which every user of the machine can read: put the password into a file")
	}
	all, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInvalid, "the log's address cannot be read", err)
	}
	var servers []*server
	for _, to := range append([]*pgconn.FallbackConfig{{Host: all.Host, Port: all.Port, TLSConfig: all.TLSConfig}}, all.Fallbacks...) {
		_, address := pgconn.NetworkAddress(to.Host, to.Port)
		if n := len(servers); n > 0 && servers[n-1].address == address { // the same server, without TLS
			servers[n-1].config.Fallbacks = append(servers[n-1].config.Fallbacks, to)
			continue
		}
		one := all.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = to.Host, to.Port, to.TLSConfig, nil
		settings(one)
		servers = append(servers, &server{address: address, config: one, passwordFile: cfg.PasswordFile, limit: cmp.Or(cfg.connect, connectLimit), least: cmp.Or(cfg.least, least), silence: cmp.Or(cfg.silence, silence)})
	}
	return servers, nil
}

// settings sets what every connection needs, whatever the defaults of the user and the database are.
func settings(c *pgconn.Config) {
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "rideshare-persdb")
	c.RuntimeParams["statement_timeout"] = "0" // it would cancel a commit that waits for a standby.
	c.RuntimeParams["lock_timeout"] = lockLimit
	c.RuntimeParams["client_min_messages"] = "warning"
	c.RuntimeParams["default_transaction_isolation"] = "read committed"
	c.OnPgError = func(_ *pgconn.PgConn, err *pgconn.PgError) bool { return err.SeverityUnlocalized == "ERROR" }
}

// conn is a connection to a server.
type conn struct {
	pg      *pgconn.PgConn
	warning string // the last warning; written while a statement runs
}

// connect connects to the server. ctx bounds the attempt, not the connection.
func (s *server) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	config := s.config.Copy()
	if s.passwordFile != "" {
		text, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return nil, dbaas.WrapError(dbaas.CodeUnavailable, "the file of the log's password cannot be read", err)
		}
		config.Password = strings.TrimSpace(string(text))
	}
	c := &conn{}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warning = n.Message
		}
	}
	// pgx dials a second time to cancel the statement of a connection that fails.
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("a statement of the log is never cancelled")
		}
		return dial(ctx, network, address)
	}
	var err error
	if c.pg, err = pgconn.ConnectConfig(ctx, config); err != nil {
		return nil, notConnected(err)
	}
	connected.Store(true)
	return c, nil
}

// notConnected returns the error of a failed connect: CodeInvalid for a permanent refusal, otherwise CodeUnavailable.
func notConnected(err error) error {
	code := dbaas.CodeUnavailable
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case "28P01", "28000", "3D000", "42501": // password, pg_hba.conf, no such database, no right to connect.
			code = dbaas.CodeInvalid
		}
	}
	return dbaas.WrapError(code, "no connection", err)
}

// close closes the socket, so that what runs on it ends. It may be called more than once, and while a statement runs.
func (c *conn) close() { _ = c.pg.Conn().Close() }

// begin returns a session without a fence on a server that says that it is a primary with the right settings. create
// creates missing tables.
func (s *server) begin(ctx context.Context, single, create bool) (*session, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	there, err := c.inspect(ctx, single)
	switch {
	case err != nil:
	case !there && create:
		_, err = c.pg.Exec(ctx, tables).ReadAll()
	case !there:
		err = dbaas.Errorf(dbaas.CodeUnavailable, "the database has no log")
	}
	for _, name := range []statement{look, enter, claim, appendNext, trim, barrier, release} {
		if err == nil {
			_, err = c.pg.Prepare(ctx, string(name), name.text(single), nil)
		}
	}
	if err != nil {
		c.close()
		return nil, notBegun(err)
	}
	return &session{conn: c, least: s.least}, nil
}

// notBegun returns an error of a new session as *dbaas.Error: CodeInvalid if it does not pass by itself.
func notBegun(err error) error {
	if _, ok := errors.AsType[*dbaas.Error](err); ok {
		return err
	}
	// No right, or no schema in which the user may create tables.
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && (refused.Code == "42501" || refused.Code == "3F000") {
		return dbaas.WrapError(dbaas.CodeInvalid, "the log's user may not create or use its tables", err)
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the server does not answer", err)
}

// inspect returns an error unless the server is a primary with settings under which an entry that counts as stored is
// on two machines, or with single on one. It reports whether the log's tables are there.
func (c *conn) inspect(ctx context.Context, single bool) (there bool, err error) {
	const question = `SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('synchronous_standby_names'), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
		EXISTS(SELECT 1 FROM pg_attribute WHERE attrelid=to_regclass('log_meta') AND attname='owner')`
	result := c.pg.ExecParams(ctx, question, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return false, result.Err
	}
	if len(result.Rows) != 1 {
		return false, fmt.Errorf("got %d rows, want 1", len(result.Rows))
	}
	row := make([]string, len(result.Rows[0]))
	for i, column := range result.Rows[0] {
		row[i] = string(column)
	}
	if row[0] == "t" {
		return false, dbaas.Errorf(dbaas.CodeUnavailable, "it is a standby")
	}
	return row[5] == "t", refusal(row[1], row[2], row[3], row[4] == "t", single)
}

// refusal returns CodeInvalid if a server with these settings must not have the log.
func refusal(fsync, commit, standbys string, mayLook, single bool) error {
	pair := "on or remote_apply"
	if single {
		pair = "anything but off"
	}
	switch {
	case fsync != "on":
		return dbaas.Errorf(dbaas.CodeInvalid, "fsync is %s, so a crash of the server loses entries: set it to on", fsync)
	case commit == "off", !single && commit != "on" && commit != "remote_apply":
		return dbaas.Errorf(dbaas.CodeInvalid, "synchronous_commit is %s: set it to %s", commit, pair)
	case single:
		return nil
	case standbys == "":
		return dbaas.Errorf(dbaas.CodeInvalid, "synchronous_standby_names is empty, so entries would be on one machine: name the standbys, or give --log-single to accept that")
	case !mayLook:
		return dbaas.Errorf(dbaas.CodeInvalid, "the log's user cannot see the standbys: GRANT pg_read_all_stats TO that user")
	}
	return nil
}
