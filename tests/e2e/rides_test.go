package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// rideView is one ride as GET rides/{rideId} shows it.
type rideView struct {
	RideID      int64    `json:"rideId"`
	CreatedBy   string   `json:"created_by"`
	Users       []string `json:"users"`
	Timestamp   string   `json:"timestamp"`
	Source      int      `json:"source"`
	Destination int      `json:"destination"`
	Seats       *int     `json:"seats"`
	SeatsLeft   *int     `json:"seats_left"`
}

// rideBody returns a valid body of POST rides, with some fields changed.
func rideBody(user string, change map[string]any) string {
	fields := map[string]any{"created_by": user, "timestamp": later, "source": 22, "destination": 23}
	maps.Copy(fields, change)
	return toJSON(fields)
}

// A created ride is found, shown and deleted as the table "rides service" says.
func TestRides_EachCall_AnswersAsDocumented(t *testing.T) {
	sys := shared(t)
	ann, bob := sys.NewUser(t, "ann"), sys.NewUser(t, "bob")
	from, to := newRoute()
	id := sys.CreateRide(t, ride{CreatedBy: ann, Timestamp: later, Source: from, Destination: to})
	list := func(source, destination int) string {
		return fmt.Sprintf("%s?source=%d&destination=%d", sys.ridesURL(), source, destination)
	}
	shown := func(users ...string) string {
		return toJSON(map[string]any{
			"rideId": id, "created_by": ann, "users": append([]string{}, users...),
			"timestamp": later, "source": from, "destination": to,
		})
	}
	gone, stranger := id+1_000_000_000, newName("nobody")
	joinAs := func(user string) string { return toJSON(map[string]string{"username": user}) }
	sys.play(t, []exchange{
		{name: "Show", method: "GET", url: sys.rideURL(id), status: 200, answer: shown()},
		{name: "ShowUnknown", method: "GET", url: sys.rideURL(gone), status: 204},
		{name: "List", method: "GET", url: list(from, to), status: 200, answer: toJSON([]map[string]any{{"rideId": id, "username": ann, "timestamp": later}})},
		{name: "ListTheWayBack", method: "GET", url: list(to, from), status: 204},
		{name: "Join", method: "POST", url: sys.rideURL(id), body: joinAs(bob), status: 200, answer: "{}"},
		{name: "JoinAgain", method: "POST", url: sys.rideURL(id), body: joinAs(bob), status: 400, answer: "{}"},
		{name: "JoinOwnRide", method: "POST", url: sys.rideURL(id), body: joinAs(ann), status: 400, answer: "{}"},
		{name: "JoinAsNobody", method: "POST", url: sys.rideURL(id), body: joinAs(stranger), status: 400, answer: "{}"},
		{name: "JoinUnknown", method: "POST", url: sys.rideURL(gone), body: joinAs(bob), status: 204},
		{name: "JoinUnknownAsNobody", method: "POST", url: sys.rideURL(gone), body: joinAs(stranger), status: 400, answer: "{}"},
		{name: "JoinUnknownWithABadBody", method: "POST", url: sys.rideURL(gone), body: `{}`, status: 400, answer: "{}"},
		{name: "ShowJoined", method: "GET", url: sys.rideURL(id), status: 200, answer: shown(bob)},
		{name: "DeleteUnknown", method: "DELETE", url: sys.rideURL(gone), status: 400, answer: "{}"},
		{name: "Delete", method: "DELETE", url: sys.rideURL(id), status: 200, answer: "{}"},
		{name: "DeleteAgain", method: "DELETE", url: sys.rideURL(id), status: 400, answer: "{}"},
		{name: "ShowDeleted", method: "GET", url: sys.rideURL(id), status: 204},
		{name: "JoinDeleted", method: "POST", url: sys.rideURL(id), body: joinAs(bob), status: 204},
		{name: "ListDeleted", method: "GET", url: list(from, to), status: 204},
		{name: "Root", method: "GET", url: sys.Rides + "/", status: 200, answer: anyBody},
	})
}

// A ride is created only for a known user, between two different areas of the enumeration, which are given as numbers
// or as strings of digits.
func TestRides_Create_ChecksUserAreasAndSeats(t *testing.T) {
	sys := shared(t)
	ann := sys.NewUser(t, "ann")
	for _, c := range []struct {
		change map[string]any
		status int
	}{
		{nil, 201},
		{map[string]any{"created_by": newName("nobody")}, 400},
		{map[string]any{"created_by": ""}, 400},
		{map[string]any{"source": "22", "destination": "23"}, 201},
		{map[string]any{"source": 1, "destination": "198"}, 201},
		{map[string]any{"source": 23}, 400},
		{map[string]any{"source": "23"}, 400},
		{map[string]any{"source": 0}, 400},
		{map[string]any{"source": "0"}, 400},
		{map[string]any{"source": -1}, 400},
		{map[string]any{"source": 199}, 400},
		{map[string]any{"destination": "199"}, 400},
		{map[string]any{"destination": 1e12}, 400},
		{map[string]any{"source": 22.5}, 400},
		{map[string]any{"source": ""}, 400},
		{map[string]any{"source": " 22"}, 400},
		{map[string]any{"source": "0x16"}, 400},
		{map[string]any{"source": "Yelahanka Satellite Town"}, 400},
		{map[string]any{"source": true}, 400},
		{map[string]any{"source": nil}, 400},
		{map[string]any{"source": []int{22}}, 400},
		{map[string]any{"seats": 1}, 201},
		{map[string]any{"seats": 1000}, 201},
		{map[string]any{"seats": 0}, 400},
		{map[string]any{"seats": -1}, 400},
		{map[string]any{"seats": 1.5}, 400},
		{map[string]any{"seats": "2"}, 400},
		{map[string]any{"seats": nil}, 400},
	} {
		a := sys.Post(t, sys.ridesURL(), rideBody(ann, c.change))
		if err := a.check(c.status, "{}"); err != nil {
			t.Errorf("%v: %v", c.change, err)
		}
		if c.status == http.StatusCreated {
			rideID(t, a)
		}
	}
}

// A list needs two different areas of the enumeration.
func TestRides_ListWithBadAreas_Refused(t *testing.T) {
	sys := shared(t)
	for query, status := range map[string]int{
		"":                                  400,
		"?source=22":                        400,
		"?destination=22":                   400,
		"?source=&destination=":             400,
		"?source=22&destination=":           400,
		"?source=22&destination=22":         400,
		"?source=0&destination=22":          400,
		"?source=22&destination=199":        400,
		"?source=-1&destination=22":         400,
		"?source=a&destination=b":           400,
		"?source=1.5&destination=22":        400,
		"?source=%2022&destination=23":      400,
		"?Source=22&Destination=23":         400,
		"?source=197&destination=198":       204,
		"?destination=198&source=197":       204,
		"?source=99999999999&destination=1": 400,
	} {
		want := "{}"
		if status == http.StatusNoContent {
			want = ""
		}
		if err := sys.Get(t, sys.ridesURL()+query).check(status, want); err != nil {
			t.Errorf("%q: %v", query, err)
		}
	}
}

// A ride id that is not a positive integer is 404.
func TestRides_IDThatIsNoPositiveInteger_NotFound(t *testing.T) {
	sys := shared(t)
	body := toJSON(map[string]string{"username": sys.NewUser(t, "ann")})
	for _, id := range []string{"0", "-1", "1.5", "abc", "1e3", "0x1", "%20", "1%20", "99999999999999999999", "１"} {
		for method, text := range map[string]string{"GET": "", "POST": body, "DELETE": ""} {
			a := sys.Call(t, method, sys.ridesURL()+"/"+id, text)
			if err := a.check(http.StatusNotFound, anyBody); err != nil {
				t.Errorf("%s %q: %v", method, id, err)
			}
		}
	}
}

// Ids count up, and an id is never reused, not even the id of the newest ride.
func TestRides_DeletedID_IsNeverUsedAgain(t *testing.T) {
	sys := shared(t)
	ann := sys.NewUser(t, "ann")
	var before int64
	for range 4 {
		id := sys.NewRide(t, ann, 0)
		if id <= before {
			t.Errorf("id: got %d after %d, want a greater one", id, before)
		}
		sys.Call(t, "DELETE", sys.rideURL(id), "").expect(t, http.StatusOK, "{}")
		before = id
	}
}

// rides/count is the number of rides in the database.
func TestRides_Count_IsTheNumberOfRides(t *testing.T) {
	sys := shared(t)
	count := func() int {
		got := decode[[]int](t, sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, anyBody))
		if len(got) != 1 {
			t.Fatalf("rides/count: got %v, want one number", got)
		}
		return got[0]
	}
	before := count()
	ann := sys.NewUser(t, "ann")
	for range 3 {
		sys.NewRide(t, ann, 0)
	}
	if got := count(); got != before+3 {
		t.Errorf("after three rides more: got %d, want %d", got, before+3)
	}
	sys.Call(t, "DELETE", sys.userURL(ann), "").expect(t, http.StatusOK, "{}")
	if got := count(); got != before {
		t.Errorf("after their creator's end: got %d, want %d", got, before)
	}
}

// Rides between two areas are all listed, whoever created them.
func TestRides_List_HasEveryRideOfTheRoute(t *testing.T) {
	sys := shared(t)
	from, to := newRoute()
	var want []int64
	for range 5 {
		r := ride{CreatedBy: sys.NewUser(t, "ann"), Timestamp: later, Source: from, Destination: to}
		want = append(want, sys.CreateRide(t, r))
	}
	url := fmt.Sprintf("%s?source=%d&destination=%d", sys.ridesURL(), from, to)
	var got []int64
	for _, r := range decode[[]rideView](t, sys.Get(t, url).expect(t, http.StatusOK, anyBody)) {
		got = append(got, r.RideID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed rides: got %v, want %v", got, want)
	}
}
