package dbtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
)

// runOne runs ["sql", value, ...] and renders its result as rqlite does: zeros
// and empty row lists are left out.
func runOne(ctx context.Context, tx *sql.Tx, s []any) (map[string]any, error) {
	if len(s) == 0 {
		return nil, errors.New("empty statement")
	}
	text, _ := s[0].(string)
	args := s[1:]
	for i, v := range args {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		if integer, err := n.Int64(); err == nil {
			args[i] = integer
		} else if args[i], err = n.Float64(); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(strings.TrimSpace(text), "SELECT") {
		return query(ctx, tx, text, args)
	}
	res, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if id, err := res.LastInsertId(); err == nil && id != 0 {
		out["last_insert_id"] = id
	}
	if n, err := res.RowsAffected(); err == nil && n != 0 {
		out["rows_affected"] = n
	}
	return out, nil
}

func query(ctx context.Context, tx *sql.Tx, text string, args []any) (map[string]any, error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below returns the errors that matter.
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	types := make([]string, len(columns))
	var values [][]any
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		values = append(values, row)
	}
	out := map[string]any{"columns": columns, "types": types}
	if values != nil {
		out["values"] = values
	}
	return out, rows.Err()
}
