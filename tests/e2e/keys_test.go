package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const keyHeader = "Idempotency-Key"

// keyed is a write with a key on each service, and another body of the same call.
func (s *system) keyed(t *testing.T) map[string][2]exchange {
	t.Helper()
	ann, table := s.NewUser(t, "ann"), s.NewTable(t, "id INTEGER PRIMARY KEY, n INTEGER")
	put := func(name string) exchange {
		return exchange{method: "PUT", url: s.usersURL(), body: userBody(name), status: http.StatusCreated}
	}
	post := func(url, body string, status int) exchange {
		return exchange{method: "POST", url: url, body: body, status: status}
	}
	from, to := newRoute()
	rides := func(seats int) exchange {
		return post(s.ridesURL(), toJSON(ride{CreatedBy: ann, Timestamp: later, Source: from, Destination: to, Seats: seats}), http.StatusCreated)
	}
	id, bob, eve := s.NewRide(t, ann, 0), s.NewUser(t, "bob"), s.NewUser(t, "eve")
	join := func(name string) exchange {
		return post(s.rideURL(id), toJSON(map[string]string{"username": name}), http.StatusOK)
	}
	insert := func(n int) exchange {
		return post(s.db("/api/v1/db/write"), fmt.Sprintf(`{"query":"insert","table":%q,"values":{"n":%d}}`, table, n), http.StatusOK)
	}
	execute := func(n int) exchange {
		return post(s.db("/db/execute"), sqlBody("INSERT INTO "+table+"(n) VALUES(?)", n), http.StatusOK)
	}
	request := func(n int) exchange {
		return post(s.db("/db/request"), sqlBody("INSERT INTO "+table+"(n) VALUES(?) RETURNING id", n), http.StatusOK)
	}
	return map[string][2]exchange{
		"PutUser":    {put(newName("keyed")), put(newName("keyed"))},
		"CreateRide": {rides(2), rides(3)},
		"JoinRide":   {join(bob), join(eve)},
		"DbWrite":    {insert(1), insert(2)},
		"Execute":    {execute(1), execute(2)},
		"Request":    {request(1), request(2)},
	}
}

// The same key with the same body is applied once and gets the first answer again, including its important headers.
// With another body it is 422.
func TestKeys_SameKeyAgain_SameAnswerOneEffect(t *testing.T) {
	sys := shared(t)
	for name, pair := range sys.keyed(t) {
		t.Run(name, func(t *testing.T) {
			key := newName("key \"with\" spaces, and !~ ")
			send := func(x exchange) answer {
				return sys.Call(t, x.method, x.url, x.body, keyHeader, key)
			}
			first := send(pair[0]).expect(t, pair[0].status, anyBody)
			for range 2 {
				again := send(pair[0]).expect(t, first.Status, anyBody)
				if again.Body != first.Body {
					t.Errorf("answer again: got %s, want %s", again.Body, first.Body)
				}
				for _, header := range []string{"Location", "X-Seq"} {
					if got, want := again.Header.Get(header), first.Header.Get(header); got != want {
						t.Errorf("%s again: got %q, want %q", header, got, want)
					}
				}
			}
			send(pair[1]).expect(t, http.StatusUnprocessableEntity, anyBody)
			sys.Call(t, pair[1].method, pair[1].url, pair[1].body, keyHeader, key, "Prefer", "respond-async").expect(t, http.StatusUnprocessableEntity, anyBody)
			// Without the key, the other body is a write of its own.
			sys.Call(t, pair[1].method, pair[1].url, pair[1].body).expect(t, pair[1].status, anyBody)
		})
	}
}

// A key is 1 to 255 printable characters.
func TestKeys_Malformed_Refused(t *testing.T) {
	sys := shared(t)
	for name, pair := range sys.keyed(t) {
		for label, key := range map[string]string{
			// Other control characters are no legal header value, so no client can send them.
			"Empty": "", "TooLong": strings.Repeat("k", 256), "Tab": "a\tb", "HighByte": "caf\xe9",
		} {
			t.Run(name+"/"+label, func(t *testing.T) {
				a := sys.Call(t, pair[0].method, pair[0].url, pair[0].body, keyHeader, key)
				a.expect(t, http.StatusBadRequest, anyBody)
			})
		}
		longest := strings.Repeat("k", 255-len(name)) + name
		sys.Call(t, pair[0].method, pair[0].url, pair[0].body, keyHeader, longest).expect(t, pair[0].status, anyBody)
	}
}

// A key belongs to one call: the same key on another service or path identifies another operation.
func TestKeys_SameKeyOnOtherCalls_AreOtherOperations(t *testing.T) {
	sys := shared(t)
	key := newName("shared-key")
	calls := sys.keyed(t)
	for _, name := range []string{"PutUser", "CreateRide", "JoinRide"} {
		x := calls[name][0]
		if err := sys.Call(t, x.method, x.url, x.body, keyHeader, key).check(x.status, anyBody); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A refused write is remembered too: the same key gets the refusal again, even after the reason is gone.
func TestKeys_RefusedWrite_StaysRefused(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1)")
	insert := fmt.Sprintf(`{"query":"insert","table":%q,"values":{"id":1}}`, table)
	key := newName("refused")
	send := func() answer { return sys.Post(t, sys.db("/api/v1/db/write"), insert, keyHeader, key) }
	send().expect(t, http.StatusBadRequest, "{}")
	sys.Exec(t, "DELETE FROM "+table)
	send().expect(t, http.StatusBadRequest, "{}")
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 0 {
		t.Errorf("rows: got %d, want 0", n)
	}
}
