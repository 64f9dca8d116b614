package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// uncheckable are schemas with expressions that fail, give another result than at the insert, or need any amount of memory when a
// check of the file computes them.
var uncheckable = map[string][]string{
	"LastInsertID":  {"CREATE TABLE x(v CHECK(last_insert_rowid()<>0))", fillX},
	"Random":        {"CREATE TABLE x(v CHECK(random()%2))", fillX},
	"TotalChanges":  {"CREATE TABLE x(v CHECK(total_changes()>0))", fillX},
	"MalformedJSON": {"CREATE TABLE x(v TEXT)", fillX, "ALTER TABLE x ADD COLUMN a TEXT AS (v->>'a')"},
	"Memory":        {"CREATE TABLE x(v)", fillX, "ALTER TABLE x ADD COLUMN a TEXT AS (hex(zeroblob(400000000)))"},
}

// fillX inserts so many rows that some pass a random check.
const fillX = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<60) INSERT OR IGNORE INTO x(v) SELECT 'r'||hex(randomblob(500)) FROM n"

// filled returns a closed store's configuration. Table x has a schema of uncheckable and rows.
func filled(t *testing.T, schema []string) commitlog.Config {
	t.Helper()
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	c := storetest.Commit(t, s, storetest.Claim(t, s), op(1, append([]string{ann}, schema...)...))
	for i := range schema {
		if r := c.Results[0].Statements[i+1]; r.Code != dbaas.CodeOK {
			t.Fatalf("%s: %s %s", schema[i], r.Code, r.Message)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// A start does not compute the expressions of clients' schemas: with such a schema, persdb would never start again. It still finds
// damage of the file.
func TestStore_Open_ComputesNoExpressionOfClients(t *testing.T) {
	t.Parallel()
	for name, schema := range uncheckable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := filled(t, schema)
			s := reopen(t, cfg)
			h, err := s.Hashes(t.Context())
			if err != nil || len(h.Damaged) > 0 {
				t.Errorf("got damaged tables %v, %v, want none", h.Damaged, err)
			}
			if got := outcome(storetest.Commit(t, s, storetest.Claim(t, s), op(2, "INSERT INTO users VALUES('bob', 'x')")).Results[0]); got != "ok" {
				t.Errorf("a write: got %s", got)
			}
			if err = s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(cfg.Dir, commitlog.FileName)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for damage, change := range damages {
				if err = os.WriteFile(path, damaged(t, whole, change), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err = commitlog.Open(t.Context(), app(cfg))
				if dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), "put a backup of both") {
					t.Errorf("%s: got %v, want the file refused", damage, err)
				}
			}
		})
	}
}

// damages change a page that begins with rows of a table.
var damages = map[string]func(page []byte){
	"Cells": func(page []byte) { binary.BigEndian.PutUint16(page[8:], 1) },
	// The header of a row's record names more columns than the record has room for.
	"Record": func(page []byte) {
		cell := int(binary.BigEndian.Uint16(page[8:]))
		for page[cell]&0x80 != 0 { // the length of the record
			cell++
		}
		page[cell+2] = 0x7f // after the length and the row id, one byte
	},
}

// damaged returns the file with the first leaf page of table x changed.
func damaged(t *testing.T, whole []byte, change func(page []byte)) []byte {
	t.Helper()
	file := bytes.Clone(whole)
	const size, leaf = 4096, 13
	for at := size; at < len(file); at += size {
		if page := file[at : at+size]; page[0] == leaf && bytes.Count(page, []byte("0")) > 50 {
			change(page)
			return file
		}
	}
	t.Fatal("found no page with rows of x")
	return nil
}

// A client's file with such a schema becomes text, and a damaged one is refused.
func TestStore_FileSQL_ComputesNoExpressionOfTheFile(t *testing.T) {
	t.Parallel()
	s := open(t, commitlog.Config{})
	for name, schema := range uncheckable {
		other := reopen(t, filled(t, schema))
		_, file := backup(t, other, dbaas.BackupForm{})
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := s.FileSQL(t.Context(), file)
		if err != nil || strings.Count(string(text), `INSERT INTO "x"`) == 0 {
			t.Errorf("%s: got %v and %d bytes, want its text", name, err, len(text))
		}
		for damage, change := range damages {
			_, err = s.FileSQL(t.Context(), damaged(t, file, change))
			if dbaas.CodeOf(err) != dbaas.CodeInvalid || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s, %s: got %v, want it refused", name, damage, err)
			}
		}
	}
}
