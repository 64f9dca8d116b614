package sqlite_test

import (
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"

	"github.com/google/go-cmp/cmp"
)

// A row function may run other statements; the values of the running one stay as they were bound.
func TestConn_Query_RowRunsOtherStatements(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE n(i INTEGER PRIMARY KEY)", "INSERT INTO n VALUES(1),(2),(3)", "CREATE TABLE o(x)")
	for _, size := range []int{5, 1 << 16} {
		var got []string
		err := c.Query("SELECT i, ? FROM n", func(r sqlite.Row) error {
			got = append(got, r.Text(1))
			return c.Exec("INSERT INTO o VALUES(?)", dbaas.Text(strings.Repeat("z", size)))
		}, dbaas.Text("outer"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"outer", "outer", "outer"}, got); diff != "" {
			t.Errorf("inner value of %d bytes (-want +got):\n%s", size, diff)
		}
	}
}
