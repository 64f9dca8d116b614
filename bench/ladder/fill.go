package ladder

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"rideshare/bench/api"
)

// fillChunk is how many rows one request of the preparation carries.
const fillChunk = 2000

const (
	createTable = "CREATE TABLE bench (k TEXT NOT NULL PRIMARY KEY, g INTEGER NOT NULL, v TEXT NOT NULL)"
	createIndex = "CREATE INDEX bench_g ON bench (g)"
)

// fill creates the table and its rows through the public API. If the path has the application's tables, fill adds users
// and rides.
func fill(ctx context.Context, url string, rows int, application bool) error {
	statements := []any{createTable, createIndex}
	for i := range rows {
		statements = append(statements, []any{
			"INSERT INTO bench (k, g, v) VALUES (?, ?, ?)", string(appendKey(nil, i)), i / groupRows, valueText + strconv.Itoa(i),
		})
		if len(statements) >= fillChunk || i == rows-1 {
			if err := execute(ctx, url, statements); err != nil {
				return err
			}
			statements = nil
		}
	}
	if !application {
		return nil
	}
	return fillRides(ctx, url)
}

func fillRides(ctx context.Context, url string) error {
	var statements []any
	for i := range rideUsers {
		statements = append(statements, []any{"INSERT INTO users (username, password) VALUES (?, ?)", rideUser(i), strings.Repeat("a", 40)})
	}
	for id := 1; id <= benchRides; id++ {
		statements = append(statements,
			[]any{"INSERT INTO rides VALUES (?, ?, ?, 1, 2, 4)", id, rideUser(id), rideTime},
			[]any{"INSERT INTO riders VALUES (?, ?), (?, ?)", id, rideUser(id + 1), id, rideUser(id + 2)})
	}
	return execute(ctx, url, statements)
}

func execute(ctx context.Context, url string, statements []any) error {
	if _, err := askSQL(ctx, url+"/db/execute?transaction", statements); err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

// askSQL is ask with statements, none of which may fail.
func askSQL(ctx context.Context, url string, statements any) ([]byte, error) {
	text, err := ask(ctx, http.MethodPost, url, statements)
	if err == nil && bytes.Contains(text, []byte(`"error"`)) {
		err = fmt.Errorf("%s: got %.300s", url, text)
	}
	return text, err
}

// ask returns the body of an answer with status 200; any other answer is an error.
func ask(ctx context.Context, method, url string, body any) ([]byte, error) {
	c := api.Client{HTTP: http.DefaultClient}
	r := c.Send(ctx, method, url, body)
	if r.Failure(http.StatusOK) != "" {
		return nil, fmt.Errorf("%s: %v", url, r)
	}
	return r.Body, nil
}
