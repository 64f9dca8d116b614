package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// A short text may stand for a large program, by a view. Such a statement is not kept after its use, whether it was large
// from the beginning or the view has changed since.
func TestConn_Prepare_LargeProgramsAreNotKept(t *testing.T) {
	w, path := sqlitetest.Open(t, sqlite.Options{})
	view := func(items int) {
		sqlitetest.Exec(t, w, "DROP VIEW IF EXISTS big", "CREATE VIEW big AS SELECT 1 IN (1"+strings.Repeat(",1", items)+") AS a")
	}
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	texts := func(from int) int {
		for n := from; n < from+5; n++ {
			sql := fmt.Sprintf("SELECT a FROM big -- %d", n)
			if got := read(t, c, dbaas.Read{Format: dbaas.FormatObjects, Statements: statements(sql)}); got != `[{"a":1}]` {
				t.Fatalf("got %s", got)
			}
		}
		return sqlite.Kept(c)
	}
	for _, tc := range []struct{ items, from, want int }{{10, 0, 5}, {8_000, 0, 0}, {8_000, 5, 0}} {
		view(tc.items)
		if n := texts(tc.from); n != tc.want {
			t.Errorf("%d items: %d statements are kept, want %d", tc.items, n, tc.want)
		}
	}
}

// All statements that a connection keeps together take a bounded amount of memory, also if they have grown since.
func TestConn_Prepare_KeptBytesAreBounded(t *testing.T) {
	w, path := sqlitetest.Open(t, sqlite.Options{})
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	for _, width := range []int{1, 300} { // 300 columns take more than 100 KiB
		sqlitetest.Exec(t, w, "DROP VIEW IF EXISTS wide", "CREATE VIEW wide AS SELECT "+columns(width, "1"))
		for n := range 100 {
			read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements(fmt.Sprintf("SELECT * FROM wide -- %d", n))})
		}
		if n := sqlite.Kept(c); width == 1 && n != 100 || width > 1 && (n < 10 || n > 80) {
			t.Errorf("%d columns: %d statements are kept", width, n)
		}
	}
}

// Of the system's own large statements only the newest is kept, so that it can run for many rows.
func TestConn_Query_OneLargeProgramIsKept(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	before := sqlite.KeptOwn(c)
	program := func(n, items int) string { return fmt.Sprintf("SELECT %d IN (1%s)", n, strings.Repeat(",1", items)) }
	sqlitetest.Exec(t, c, program(0, 10), program(1, 8_000), program(2, 8_000))
	newest := sqlite.Own(c, program(2, 8_000))
	sqlitetest.Exec(t, c, program(0, 10), program(2, 8_000))
	if newest == nil || sqlite.Own(c, program(2, 8_000)) != newest {
		t.Error("the newest large statement was prepared again")
	}
	if n := sqlite.KeptOwn(c) - before; n != 2 {
		t.Errorf("%d statements are kept, want the small one and the newest large one", n)
	}
	// A running statement is not finalized for another one.
	if err := c.Query(program(2, 8_000), func(sqlite.Row) error { return c.Exec(program(3, 8_000)) }); err != nil {
		t.Error(err)
	}
}

// The system's own statements together take a bounded amount of memory.
func TestConn_Query_KeptBytesAreBounded(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	for n := range 100 {
		sqlitetest.Exec(t, c, fmt.Sprintf("SELECT %d, %s", n, columns(300, "1"))) // more than 100 KiB
	}
	if n := sqlite.KeptOwn(c); n > 80 {
		t.Errorf("%d statements are kept", n)
	}
}

// A statement of the system's own that the engine prepares again, for a larger view, leaves nothing in the sum when it is forgotten.
func TestConn_Query_Reprepared_SumIsExact(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{})
	view := func(items int) string {
		return "CREATE VIEW big AS SELECT 1 IN (1" + strings.Repeat(",1", items) + ") AS a"
	}
	sqlitetest.Exec(t, c, "CREATE TABLE x(a CHECK(a > 1))", view(10))
	other := sqlitetest.OpenAt(t, path, sqlite.Options{})
	const fails = "INSERT INTO x SELECT a FROM big"
	for range 2 {
		if err := c.Exec(fails); err == nil {
			t.Fatal("the CHECK holds")
		}
		sqlitetest.Exec(t, other, "DROP VIEW IF EXISTS big", view(1_000))
	}
	if err := c.ChangeSchema("DROP TABLE x"); err != nil { // forgets all
		t.Fatal(err)
	}
	if n := sqlite.OwnBytes(c); n != 0 {
		t.Errorf("the sum is %d bytes without a statement", n)
	}
}
