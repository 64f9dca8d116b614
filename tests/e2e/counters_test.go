package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// Every request to the users and rides routes counts once, successful or not;
// _count, db/clear, health and metrics do not.
func TestCounters_EachRequest_CountsOnceWhereItShould(t *testing.T) {
	sys := start(t, setup{})
	ann := sys.NewUser(t, "ann")
	id := sys.NewRide(t, ann, 0)
	for _, c := range []struct {
		name         string
		exchange     exchange
		users, rides int // by how much the counters rise
	}{
		{"CreateUser", exchange{method: "PUT", url: sys.usersURL(), body: userBody("eve")}, 1, 0},
		{"CreateUserAgain", exchange{method: "PUT", url: sys.usersURL(), body: userBody("eve")}, 1, 0},
		{"BadBody", exchange{method: "PUT", url: sys.usersURL(), body: "{"}, 1, 0},
		{"ListUsers", exchange{method: "GET", url: sys.usersURL()}, 1, 0},
		{"LookUp", exchange{method: "GET", url: sys.userURL(ann)}, 1, 0},
		{"LookUpUnknown", exchange{method: "GET", url: sys.userURL("nobody")}, 1, 0},
		{"DeleteUnknown", exchange{method: "DELETE", url: sys.userURL("nobody")}, 1, 0},
		{"OtherMethod", exchange{method: "PATCH", url: sys.usersURL()}, 1, 0},
		{"OtherMethodOnOne", exchange{method: "POST", url: sys.userURL(ann)}, 1, 0},
		{"OwnPort", exchange{method: "GET", url: sys.Users + "/api/v1/users"}, 1, 0},
		{"ListRides", exchange{method: "GET", url: sys.ridesURL() + "?source=1&destination=2"}, 0, 1},
		{"ListRidesBadly", exchange{method: "GET", url: sys.ridesURL()}, 0, 1},
		{"ShowRide", exchange{method: "GET", url: sys.rideURL(id)}, 0, 1},
		{"ShowUnknownRide", exchange{method: "GET", url: sys.rideURL(1 << 40)}, 0, 1},
		{"DeleteUnknownRide", exchange{method: "DELETE", url: sys.rideURL(1 << 40)}, 0, 1},
		{"CountRides", exchange{method: "GET", url: sys.ridesURL() + "/count"}, 0, 1},
		{"OtherMethodOnRides", exchange{method: "PATCH", url: sys.ridesURL()}, 0, 1},
		{"OtherMethodOnCount", exchange{method: "POST", url: sys.ridesURL() + "/count"}, 0, 1},
		{"CreateRideBadly", exchange{method: "POST", url: sys.ridesURL(), body: "{}"}, 0, 1},
		{"CreateRideAsNobody", exchange{method: "POST", url: sys.ridesURL(), body: rideBody("nobody", nil)}, 1, 1},
		{"CreateRide", exchange{method: "POST", url: sys.ridesURL(), body: rideBody(ann, nil)}, 1, 1},
		{"CountUsersRequests", exchange{method: "GET", url: sys.Users + "/api/v1/_count"}, 0, 0},
		{"CountRidesRequests", exchange{method: "GET", url: sys.Rides + "/api/v1/_count"}, 0, 0},
		{"OlderCountOfUsers", exchange{method: "GET", url: sys.usersURL() + "/_count"}, 0, 0},
		{"OlderCountOfRides", exchange{method: "GET", url: sys.ridesURL() + "/_count"}, 0, 0},
		{"Live", exchange{method: "GET", url: sys.Users + "/livez"}, 0, 0},
		{"Ready", exchange{method: "GET", url: sys.Rides + "/readyz"}, 0, 0},
		{"Metrics", exchange{method: "GET", url: sys.Users + "/metrics"}, 0, 0},
		{"Clear", exchange{method: "POST", url: sys.Users + "/api/v1/db/clear"}, 0, 0},
		{"ClearAtRides", exchange{method: "POST", url: sys.Rides + "/api/v1/db/clear"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			users, rides := sys.Count(t, sys.Users), sys.Count(t, sys.Rides)
			sys.Call(t, c.exchange.method, c.exchange.url, c.exchange.body)
			if got := sys.Count(t, sys.Users) - users; got != c.users {
				t.Errorf("users' counter rose by %d, want %d", got, c.users)
			}
			if got := sys.Count(t, sys.Rides) - rides; got != c.rides {
				t.Errorf("rides' counter rose by %d, want %d", got, c.rides)
			}
		})
	}
}

// _count and the older paths through the gateway read and reset the same number. A reset changes neither the other
// counter nor any user or ride.
func TestCounters_Reset_StartsAtZero(t *testing.T) {
	sys := start(t, setup{})
	sys.PutUser(t, "ann")
	sys.NewRide(t, "ann", 0)
	sys.play(t, []exchange{
		{name: "Users", method: "GET", url: sys.Users + "/api/v1/_count", status: 200, answer: "[2]"},
		{name: "UsersOlder", method: "GET", url: sys.usersURL() + "/_count", status: 200, answer: "[2]"},
		{name: "Rides", method: "GET", url: sys.Rides + "/api/v1/_count", status: 200, answer: "[1]"},
		{name: "RidesOlder", method: "GET", url: sys.ridesURL() + "/_count", status: 200, answer: "[1]"},
		{name: "ResetUsers", method: "DELETE", url: sys.Users + "/api/v1/_count", status: 200, answer: "{}"},
		{name: "UsersAfterReset", method: "GET", url: sys.Users + "/api/v1/_count", status: 200, answer: "[0]"},
		{name: "RidesStay", method: "GET", url: sys.Rides + "/api/v1/_count", status: 200, answer: "[1]"},
		{name: "AnnStays", method: "GET", url: sys.userURL("ann"), status: 200, answer: anyBody},
		{name: "UsersGoOn", method: "GET", url: sys.usersURL() + "/_count", status: 200, answer: "[1]"},
		{name: "ResetRidesOlder", method: "DELETE", url: sys.ridesURL() + "/_count", status: 200, answer: "{}"},
		{name: "RidesAfterReset", method: "GET", url: sys.Rides + "/api/v1/_count", status: 200, answer: "[0]"},
		{name: "ResetUsersOlder", method: "DELETE", url: sys.usersURL() + "/_count", status: 200, answer: "{}"},
		{name: "UsersAfterOlderReset", method: "GET", url: sys.Users + "/api/v1/_count", status: 200, answer: "[0]"},
		{name: "RideStays", method: "GET", url: sys.ridesURL() + "/count", status: 200, answer: "[1]"},
	})
}

// Counters are exact under concurrency, and each created ride is exactly one
// request at users, whichever way the user is checked.
func TestCounters_CreatedRides_AreOneRequestAtUsersEach(t *testing.T) {
	for _, check := range []string{"lookup", "list"} {
		t.Run(check, func(t *testing.T) {
			sys := start(t, setup{env: []string{"RIDES_USER_CHECK=" + check}})
			sys.PutUser(t, "ann")
			sys.Call(t, "DELETE", sys.Users+"/api/v1/_count", "").expect(t, http.StatusOK, "{}")
			const callers, each = 10, 10
			err := together(callers, func(int) error {
				for range each {
					a, err := sys.Try(t.Context(), "POST", sys.ridesURL(), rideBody("ann", nil))
					if err != nil {
						return err
					}
					if err = a.check(http.StatusCreated, "{}"); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, base := range map[string]string{"users": sys.Users, "rides": sys.Rides} {
				if got := sys.Count(t, base); got != callers*each {
					t.Errorf("_count of %s after %d rides: got %d, want the same", name, callers*each, got)
				}
			}
		})
	}
}

// db/clear empties users, rides and seats on whichever service it is called; ride
// ids start at 1 again and the counters stay.
func TestClear_OnEachService_EmptiesEverything(t *testing.T) {
	sys := start(t, setup{})
	sys.Get(t, sys.usersURL()).expect(t, http.StatusNoContent, "")
	sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, "[0]")
	for i, base := range []string{sys.Users, sys.Rides, sys.Orchestrator} {
		sys.PutUser(t, "ann")
		sys.PutUser(t, "bob")
		for want := int64(1); want <= 2; want++ {
			if id := sys.NewRide(t, "ann", 0); id != want {
				t.Errorf("round %d, ride id: got %d, want %d", i, id, want)
			}
		}
		sys.Join(t, 2, "bob").expect(t, http.StatusOK, "{}")
		users, rides := sys.Count(t, sys.Users), sys.Count(t, sys.Rides)

		sys.Post(t, base+"/api/v1/db/clear", "").expect(t, http.StatusOK, "{}")

		if got := sys.Count(t, sys.Users); got != users {
			t.Errorf("users' counter after db/clear: got %d, want %d", got, users)
		}
		if got := sys.Count(t, sys.Rides); got != rides {
			t.Errorf("rides' counter after db/clear: got %d, want %d", got, rides)
		}
		sys.Get(t, sys.usersURL()).expect(t, http.StatusNoContent, "")
		sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, "[0]")
		for _, table := range []string{"users", "rides", "riders"} {
			if n := sys.QueryInt(t, fmt.Sprintf("SELECT count(*) FROM %s", table)); n != 0 {
				t.Errorf("%s after db/clear: got %d rows, want none", table, n)
			}
		}
	}
}
