package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// The free seats count down, the last seat is given once, and a ride without a limit has neither field.
func TestRides_Seats_AreCountedAndEnd(t *testing.T) {
	sys := shared(t)
	host, ann, bob := sys.NewUser(t, "host"), sys.NewUser(t, "ann"), sys.NewUser(t, "bob")
	id := sys.NewRide(t, host, 1)
	expectSeats := func(seats, left int) {
		t.Helper()
		view := decode[rideView](t, sys.Get(t, sys.rideURL(id)).expect(t, http.StatusOK, anyBody))
		if view.Seats == nil || view.SeatsLeft == nil || *view.Seats != seats || *view.SeatsLeft != left {
			t.Errorf("got %s, want seats %d and seats_left %d", toJSON(view), seats, left)
		}
	}
	expectSeats(1, 1)
	sys.Join(t, id, ann).expect(t, http.StatusOK, "{}")
	expectSeats(1, 0)
	sys.Join(t, id, bob).expect(t, http.StatusConflict, "{}")
	expectSeats(1, 0)

	unlimited := sys.Get(t, sys.rideURL(sys.NewRide(t, host, 0)))
	fields := decode[map[string]json.RawMessage](t, unlimited)
	for _, name := range []string{"seats", "seats_left"} {
		if _, there := fields[name]; there {
			t.Errorf("a ride without a limit shows %s: %s", name, unlimited.Body)
		}
	}
}

// A join is checked in a fixed order: on a full ride its creator and users who have already joined get 400, and only
// other users get 409.
func TestRides_JoinOfAFullRide_ChecksInOrder(t *testing.T) {
	sys := shared(t)
	host, ann, bob := sys.NewUser(t, "host"), sys.NewUser(t, "ann"), sys.NewUser(t, "bob")
	id := sys.NewRide(t, host, 1)
	sys.Join(t, id, ann).expect(t, http.StatusOK, "{}")
	sys.Join(t, id, host).expect(t, http.StatusBadRequest, "{}")
	sys.Join(t, id, ann).expect(t, http.StatusBadRequest, "{}")
	sys.Join(t, id, newName("nobody")).expect(t, http.StatusBadRequest, "{}")
	sys.Post(t, sys.rideURL(id), `{"username":""}`).expect(t, http.StatusBadRequest, "{}")
	sys.Join(t, id, bob).expect(t, http.StatusConflict, "{}")
}

// A thousand users join a ride with 37 seats concurrently: 37 get 200, 963 get 409, and exactly those 37 share the
// ride. On a machine that is too slow for a thousand concurrent requests some get 503, which was certainly not done,
// and retry.
func TestRides_ThousandJoinsFor37Seats_EachSeatGivenOnce(t *testing.T) {
	sys := shared(t)
	const callers, seats = 1000, 37
	prefix := newName("rider")
	inserts := make([]any, callers)
	for i := range inserts {
		inserts[i] = []any{"INSERT INTO users(username, password) VALUES(?, ?)", fmt.Sprintf("%s-%d", prefix, i), "none"}
	}
	sys.Post(t, sys.db("/db/execute?transaction"), toJSON(inserts)).expect(t, http.StatusOK, anyBody)
	id := sys.NewRide(t, sys.NewUser(t, "host"), seats)

	statuses := make([]int, callers)
	err := together(callers, func(i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		a, err := sys.book(name, "POST", sys.rideURL(id), toJSON(map[string]string{"username": name}), http.StatusOK, http.StatusConflict)
		statuses[i] = a.Status
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	count, joined := map[int]int{}, []string{}
	for i, status := range statuses {
		count[status]++
		if status == http.StatusOK {
			joined = append(joined, fmt.Sprintf("%s-%d", prefix, i))
		}
	}
	if count[http.StatusOK] != seats || count[http.StatusConflict] != callers-seats {
		t.Errorf("statuses: got %v, want 200 %d times and 409 %d times", count, seats, callers-seats)
	}
	view := decode[rideView](t, sys.Get(t, sys.rideURL(id)).expect(t, http.StatusOK, anyBody))
	slices.Sort(view.Users)
	slices.Sort(joined)
	if !slices.Equal(view.Users, joined) {
		t.Errorf("who shares the ride: got %v, want those answered 200, %v", view.Users, joined)
	}
	if view.SeatsLeft == nil || *view.SeatsLeft != 0 {
		t.Errorf("seats left: got %v, want 0", view.SeatsLeft)
	}
}
