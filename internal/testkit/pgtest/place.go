// Package pgtest gives tests a place in a PostgreSQL with a synchronous standby.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rideshare/internal/testkit/testenv"
)

// Place is a schema for one test. It is removed when the test ends.
type Place struct {
	// URL is that of a log in the schema: the primary, then its standby.
	URL          string
	PasswordFile string
}

// askLimit bounds one question of a test.
const askLimit = 2 * time.Minute

var schemas atomic.Int64

// Shared returns a place in the PostgreSQL that tests share, which no test may break.
func Shared(tb testing.TB) *Place {
	tb.Helper()
	address, passwordFile := testenv.SharedPostgres(tb)
	return newPlace(tb, address, passwordFile)
}

// In returns a place in a PostgreSQL of the test.
func In(tb testing.TB, p *testenv.Postgres) *Place {
	tb.Helper()
	return newPlace(tb, p.Primary.URL, p.PasswordFile)
}

func newPlace(tb testing.TB, address, passwordFile string) *Place {
	tb.Helper()
	schema := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	p := &Place{PasswordFile: passwordFile, URL: address + "?search_path=" + schema}
	p.Exec(tb, "CREATE SCHEMA "+schema)
	tb.Cleanup(func() { p.Exec(tb, "DROP SCHEMA "+schema+" CASCADE") })
	return p
}

// Through returns the URL with other hosts.
func (p *Place) Through(tb testing.TB, hosts ...string) string {
	tb.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}

// Primary returns the primary's address as a URL, for testenv.NewNetwork.
func (p *Place) Primary(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		tb.Fatal(err)
	}
	host, _, _ := strings.Cut(u.Host, ",")
	return "tcp://" + host
}

// Exec runs SQL on the primary, as a superuser in the schema, and returns the rows of its last statement as text. It does
// not wait for a standby, which the test may have stopped.
func (p *Place) Exec(tb testing.TB, sql string) [][]string {
	tb.Helper()
	return p.exec(tb, "SET synchronous_commit=local", sql)
}

// exec is Ask, which must succeed.
func (p *Place) exec(tb testing.TB, texts ...string) [][]string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askLimit) // cleanups run after the test's context has ended.
	defer cancel()
	rows, err := p.Ask(ctx, texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

// Ask runs texts of SQL on a connection of their own, and returns the rows of the last statement as text.
func (p *Place) Ask(ctx context.Context, texts ...string) (rows [][]string, err error) {
	config, err := p.config()
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var last *pgconn.Result
	for _, text := range texts {
		results, err := conn.Exec(ctx, text).ReadAll()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		last = results[len(results)-1]
	}
	for _, row := range last.Rows {
		columns := make([]string, len(row))
		for i := range row {
			columns[i] = string(row[i])
		}
		rows = append(rows, columns)
	}
	return rows, nil
}

// config returns the settings of a connection to the primary.
func (p *Place) config() (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(p.URL)
	if err != nil {
		return nil, err
	}
	if p.PasswordFile != "" {
		password, err := os.ReadFile(p.PasswordFile)
		if err != nil {
			return nil, err
		}
		config.Password = strings.TrimSpace(string(password))
	}
	config.Fallbacks, config.TLSConfig = nil, nil
	config.RuntimeParams["application_name"] = "test"
	return config, nil
}

// Value returns the only value that a question has.
func (p *Place) Value(tb testing.TB, sql string) string {
	tb.Helper()
	return only(tb, sql, p.Exec(tb, sql))
}

func only(tb testing.TB, sql string, rows [][]string) string {
	tb.Helper()
	if len(rows) != 1 || len(rows[0]) != 1 {
		tb.Fatalf("%s: got %v, want one value", sql, rows)
	}
	return rows[0][0]
}

// Set changes a setting of the server and returns when new connections have it. It is set back when the test ends.
func (p *Place) Set(tb testing.TB, name, value string) {
	tb.Helper()
	old := p.setting(tb, name)
	p.set(tb, name, value)
	tb.Cleanup(func() { p.set(tb, name, old) })
}

func (p *Place) set(tb testing.TB, name, value string) {
	tb.Helper()
	p.Exec(tb, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value))
	p.Exec(tb, "SELECT pg_reload_conf()")
	testenv.Eventually(tb, askLimit, func() error {
		if got := p.setting(tb, name); got != value {
			return fmt.Errorf("%s is %q, want %q", name, got, value)
		}
		return nil
	})
}

// setting returns a setting of the server, as a new connection has it.
func (p *Place) setting(tb testing.TB, name string) string {
	tb.Helper()
	sql := "SELECT current_setting('" + name + "')"
	return only(tb, sql, p.exec(tb, sql))
}
