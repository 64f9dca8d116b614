package ladder

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// makeSchema makes a schema for one path, and returns the address of a log in it and what drops the schema.
func makeSchema(ctx context.Context, env Environment, run string) (address string, drop func(context.Context) error, _ error) {
	u, err := url.Parse(env.Postgres)
	if err != nil {
		return "", nil, errors.New("the address of PostgreSQL is no URL")
	}
	schema := strings.ReplaceAll(run, "-", "_")
	if err = env.psql(ctx, "CREATE SCHEMA "+schema); err != nil {
		return "", nil, err
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), func(ctx context.Context) error {
		// Without the table the log was elsewhere, and the figures are wrong.
		return errors.Join(env.psql(ctx, "SELECT FROM "+schema+".log LIMIT 0"), env.psql(ctx, "DROP SCHEMA "+schema+" CASCADE"))
	}, nil
}

// psql runs a statement on the primary.
func (env Environment) psql(ctx context.Context, sql string) error {
	// The first host may be a standby.
	cmd := exec.CommandContext(ctx, "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", env.Postgres, "-c", sql) //nolint:gosec // a fixed program.
	cmd.Env = append(os.Environ(), "PGTARGETSESSIONATTRS=read-write", "PGCONNECT_TIMEOUT=10", "PGOPTIONS=-c client_min_messages=warning")
	if env.PostgresPasswordFile != "" {
		password, err := os.ReadFile(env.PostgresPasswordFile)
		if err != nil {
			return fmt.Errorf("read the password of PostgreSQL: %w", err)
		}
		cmd.Env = append(cmd.Env, "PGPASSWORD="+strings.TrimSpace(string(password)))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}
