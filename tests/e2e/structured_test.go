package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// structured calls db/read or db/write with a body of the structured form.
func structured(name, kind, body string, status int, answer string) exchange {
	return exchange{name: name, method: "POST", url: "/api/v1/db/" + kind, body: body, status: status, answer: answer}
}

// playStructured plays exchanges at the orchestrator, with T for the table's name.
func (s *system) playStructured(t *testing.T, table string, exchanges []exchange) {
	t.Helper()
	for i := range exchanges {
		exchanges[i].url = s.db(exchanges[i].url)
		exchanges[i].body = strings.ReplaceAll(exchanges[i].body, `"T"`, toJSON(table))
	}
	s.play(t, exchanges)
}

// Inserts, updates, deletes and reads of the structured form work as documented.
func TestStructured_EachStatement_DoesWhatItSays(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, name TEXT, n INTEGER")
	const all = `{"table":"T","columns":["id","name","n"],"condition":{}}`
	sys.playStructured(t, table, []exchange{
		structured("ReadNothing", "read", all, 200, `[]`),
		structured("Insert", "write", `{"query":"insert","table":"T","values":{"id":1,"name":"o'brien \"x\"","n":7}}`, 200, `{}`),
		structured("InsertSameKey", "write", `{"query":"insert","table":"T","values":{"id":1,"name":"bob"}}`, 400, `{}`),
		structured("InsertWithNull", "write", `{"query":"insert","table":"T","values":{"id":2,"name":null,"n":-5}}`, 200, `{}`),
		structured("ReadAll", "read", all, 200, `[{"id":1,"name":"o'brien \"x\"","n":7},{"id":2,"name":null,"n":-5}]`),
		structured("ReadAllWithoutCondition", "read", `{"table":"T","columns":["id"]}`, 200, `[{"id":1},{"id":2}]`),
		structured("ReadOne", "read", `{"table":"T","columns":["name"],"condition":{"id":1}}`, 200, `[{"name":"o'brien \"x\""}]`),
		structured("ReadByTwo", "read", `{"table":"T","columns":["id"],"condition":{"id":1,"n":7}}`, 200, `[{"id":1}]`),
		structured("ReadByTwoOneWrong", "read", `{"table":"T","columns":["id"],"condition":{"id":1,"n":8}}`, 200, `[]`),
		structured("ReadWhere", "read", `{"table":"T","columns":["id"],"where":{"n":-5}}`, 200, `[{"id":2}]`),
		structured("Count", "read", `{"table":"T","columns":["count(*)"]}`, 200, `[{"count(*)":2}]`),
		structured("CountSome", "read", `{"table":"T","columns":["count(*)"],"condition":{"id":9}}`, 200, `[{"count(*)":0}]`),
		structured("Update", "write", `{"query":"update","table":"T","values":{"name":"ann"},"condition":{"id":1}}`, 200, `{}`),
		structured("UpdateNothing", "write", `{"query":"update","table":"T","values":{"name":"x"},"condition":{"id":99}}`, 200, `{}`),
		structured("UpdateWhere", "write", `{"query":"update","table":"T","values":{"n":8},"where":{"id":1}}`, 200, `{}`),
		structured("Increment", "write", `{"query":"update","table":"T","values":{"n":"n + 2"},"condition":{"id":1}}`, 200, `{}`),
		structured("IncrementOfATextStaysText", "write", `{"query":"update","table":"T","values":{"name":"name + 1"},"condition":{"id":2}}`, 200, `{}`),
		structured("ReadUpdated", "read", all, 200, `[{"id":1,"name":"ann","n":10},{"id":2,"name":"name + 1","n":-5}]`),
		structured("DeleteNothing", "write", `{"query":"delete","table":"T","condition":{"id":99}}`, 200, `{}`),
		structured("Delete", "write", `{"query":"delete","table":"T","condition":{"id":1}}`, 200, `{}`),
		structured("ReadLeft", "read", `{"table":"T","columns":["id"]}`, 200, `[{"id":2}]`),
	})
}

// A body that is not of the structured form, or names an unknown table or column, is 400 and `{}`.
func TestStructured_MalformedOrUnknown_Refused(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, n INTEGER")
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1, 1)")
	for kind, bodies := range map[string][]string{
		"read": {
			``, `{}`, `[]`, `null`, `{"table":"T"}`, `{"columns":["id"]}`, `{"table":"T","columns":[]}`, `{"table":"T","columns":"id"}`,
			`{"table":"nope","columns":["id"]}`, `{"table":"T","columns":["nope"]}`, `{"table":"T","columns":["id"],"condition":{"nope":1}}`,
			`{"table":"T","columns":["id"],"condition":"id=1"}`, `{"table":"T","columns":["id"],"where":"id=1"}`, `{"table":"T","columns":["id"],"condition":[]}`,
			`{"table":"T","columns":["id"],"x":1}`, `{"table":"T","columns":["id"]}{}`, `{"table":"T","table":"T","columns":["id"]}`, `{"Table":"T","columns":["id"]}`,
			`{"table":"T","columns":["id"],"condition":{"id":1},"where":{"id":1}}`, `{"table":"T","columns":["id"],"condition":{"id":1,"id":2}}`,
			`{"table":"T","columns":["id FROM users; --"]}`, `{"table":"T; DROP TABLE users","columns":["id"]}`, `{"table":"T","columns":["*"]}`,
			`{"table":"T","columns":["random()"]}`, `{"table":"sqlite_master","columns":["name"]}`, `{"table":"T","columns":[1]}`,
			`{"table":"T","columns":["id"],"condition":{"id":{"a":1}}}`, `{"table":"T","columns":["id"],"condition":{"id":[1]}}`,
		},
		"write": {
			``, `{}`, `[]`, `{"query":"insert"}`, `{"query":"insert","table":"T"}`, `{"query":"insert","table":"T","values":{}}`, `{"table":"T","values":{"id":2}}`,
			`{"query":"drop","table":"T"}`, `{"query":"INSERT INTO T VALUES(2,2)"}`, `{"query":"insert","table":"nope","values":{"id":2}}`,
			`{"query":"insert","table":"T","values":{"nope":2}}`, `{"query":"insert","table":"T","values":{"id":2},"x":1}`, `{"query":"insert","table":"T","values":{"id":2},}`,
			`{"query":"insert","table":"T","values":{"id":2}} {}`, `{"query":"insert","query":"delete","table":"T","values":{"id":2}}`,
			`{"query":"insert","table":"T","values":{"id":2,"id":3}}`, `{"query":"insert","table":"T","values":[2]}`, `{"query":"insert","table":"T","values":{"id":{}}}`,
			`{"query":"update","table":"T","values":{"n":9}}`, `{"query":"update","table":"T","values":{"n":9},"condition":{}}`,
			`{"query":"update","table":"T","condition":{"id":1}}`, `{"query":"update","table":"T","values":{"n":9},"condition":{"nope":1}}`,
			`{"query":"delete","table":"T"}`, `{"query":"delete","table":"T","condition":{}}`, `{"query":"delete","table":"T","condition":{"nope":1}}`,
			`{"query":"delete","table":"T","where":"1=1"}`, `{"query":"update","table":"T","values":{"n":9},"where":"1=1"}`,
		},
	} {
		for _, body := range bodies {
			body = strings.ReplaceAll(body, `"T`, `"`+table)
			if err := sys.Post(t, sys.db("/api/v1/db/"+kind), body).check(http.StatusBadRequest, "{}"); err != nil {
				t.Errorf("db/%s %s: %v", kind, body, err)
			}
		}
	}
	left := sys.Post(t, sys.db("/api/v1/db/read"), `{"table":"`+table+`","columns":["id","n"]}`)
	left.expect(t, http.StatusOK, `[{"id":1,"n":1}]`)
}

// SQL text in place of an object is refused with a problem that names the form to use.
func TestStructured_SQLText_RefusedWithTheWayToGo(t *testing.T) {
	sys := shared(t)
	for _, c := range []struct{ kind, body string }{
		{"read", `{"table":"users","columns":["username"],"where":"username='ann'"}`},
		{"write", `{"insert":"INSERT INTO users VALUES('a','b')"}`},
		{"write", `{"delete":"DELETE FROM users"}`},
		{"write", `{"query":"update","table":"users","values":{"password":"x"},"where":"1=1"}`},
	} {
		a := sys.Post(t, sys.db("/api/v1/db/"+c.kind), c.body, "Accept", "application/problem+json")
		a.expect(t, http.StatusBadRequest, anyBody)
		if !strings.Contains(a.Body, "/db/") {
			t.Errorf("db/%s %s: got %s, want a text that names the SQL form", c.kind, c.body, a.Body)
		}
	}
}

// Constraints hold in the structured form, values keep their exact type, and a
// password is stored as given.
func TestStructured_ApplicationTables_KeepTheirRules(t *testing.T) {
	sys := shared(t)
	name := newName("plain")
	nameText := toJSON(name)
	sys.playStructured(t, "", []exchange{
		structured("InsertUser", "write", `{"query":"insert","table":"users","values":{"username":`+nameText+`,"password":"as given"}}`, 200, `{}`),
		structured("InsertUserAgain", "write", `{"query":"insert","table":"users","values":{"username":`+nameText+`,"password":"y"}}`, 400, `{}`),
		structured("ReadPassword", "read", `{"table":"users","columns":["password"],"condition":{"username":`+nameText+`}}`, 200, `[{"password":"as given"}]`),
		structured("RideOfNobody", "write", `{"query":"insert","table":"rides","values":{"created_by":"nobody at all","timestamp":"x","source":1,"destination":2}}`, 400, `{}`),
		structured("RiderOfNoRide", "write", `{"query":"insert","table":"riders","values":{"rideId":999999999,"user":`+nameText+`}}`, 400, `{}`),
		structured("UserWithoutName", "write", `{"query":"insert","table":"users","values":{"username":null,"password":"x"}}`, 400, `{}`),
		structured("DeleteUser", "write", `{"query":"delete","table":"users","condition":{"username":`+nameText+`}}`, 200, `{}`),
	})
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, v")
	sys.playStructured(t, table, []exchange{
		structured("BigInteger", "write", `{"query":"insert","table":"T","values":{"id":1,"v":9007199254740993}}`, 200, `{}`),
		structured("SmallestInteger", "write", `{"query":"insert","table":"T","values":{"id":2,"v":-9223372036854775808}}`, 200, `{}`),
		structured("Float", "write", `{"query":"insert","table":"T","values":{"id":3,"v":0.1}}`, 200, `{}`),
		structured("DigitsAsText", "write", `{"query":"insert","table":"T","values":{"id":4,"v":"007"}}`, 200, `{}`),
		structured(
			"ReadThem", "read", `{"table":"T","columns":["id","v"]}`, 200,
			`[{"id":1,"v":9007199254740993},{"id":2,"v":-9223372036854775808},{"id":3,"v":0.1},{"id":4,"v":"007"}]`,
		),
	})
}

// db/clear is answered `{}` and ignores a body.
func TestStructured_Clear_IgnoresABody(t *testing.T) {
	sys := start(t, setup{})
	sys.PutUser(t, "ann")
	sys.Post(t, sys.db("/api/v1/db/clear"), `{"what":"ever"}`).expect(t, http.StatusOK, "{}")
	sys.Post(t, sys.db("/api/v1/db/read"), `{"table":"users","columns":["count(*)"]}`).expect(t, http.StatusOK, `[{"count(*)":0}]`)
}
