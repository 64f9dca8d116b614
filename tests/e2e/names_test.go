package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// hostileNames returns legal user names that break code which wrongly quotes, splits, cleans or decodes names.
func hostileNames() []string {
	return []string{
		`o'brien`, `"quoted"`, `back\slash`, `\`, `\\n`, "line\nbreak", "carriage\r\nreturn", "tab\there",
		`100%`, `%2F`, `%252F`, `%zz`, `a/b`, `/`, `//`, `/api/v1/users`, `.`, `..`, `../..`, `a;b`, `;`,
		`a?b=c#d`, `a&b=c`, `a+b`, ` `, ` around `, `*`, `'; DROP TABLE users; --`, `" OR 1=1 --`,
		`{"username":"x"}`, `null`, `0`, `-1`, `true`, `<script>alert(1)</script>`, `&amp;`, `$1`, `?1`, `:a`, `@a`,
		`Ünï-çødé`, "e\u0301", "\u00e9", `日本語`, `👩‍👩‍👧‍👦`, "\u202eright to left", "\u2028separator", "\ufeffbom", "\ufffd", `count`, `_counts`,
		`x'616e6e'`, `X'6A'`, ` x'6a' `,
	}
}

// A legal name survives unchanged through creation, list, look-up, rides and
// deletion, whatever characters it has.
func TestUsers_HostileName_SurvivesUnchanged(t *testing.T) {
	sys := shared(t)
	for i, name := range hostileNames() {
		t.Run(fmt.Sprintf("Name%02d", i), func(t *testing.T) {
			sys.liveWith(t, name)
		})
	}
}

// There is no limit on names beyond the body limit: 100,000 characters are legal.
func TestUsers_NameOf100000Characters_SurvivesUnchanged(t *testing.T) {
	sys := shared(t)
	const length = 100_000
	for label, unit := range map[string]string{"Ascii": "x", "ThreeBytes": "語", "Quotes": `'"\/%`} {
		t.Run(label, func(t *testing.T) {
			runes := []rune(strings.Repeat(unit, length))
			sys.liveWith(t, string(runes[:length]))
		})
	}
}

// liveWith takes a user of that name through everything a client can do with it.
func (s *system) liveWith(t *testing.T, name string) {
	t.Helper()
	one := toJSON(map[string]string{"username": name})
	s.PutUser(t, name)
	s.Call(t, "PUT", s.usersURL(), userBody(name)).expect(t, http.StatusBadRequest, "{}")
	s.Get(t, s.userURL(name)).expect(t, http.StatusOK, one)
	if names := decode[[]string](t, s.Get(t, s.usersURL())); !slices.Contains(names, name) {
		t.Errorf("the list of users lacks %.80q", name)
	}

	source, destination := newRoute()
	mine := s.CreateRide(t, ride{CreatedBy: name, Timestamp: later, Source: source, Destination: destination})
	rides := fmt.Sprintf("%s?source=%d&destination=%d", s.ridesURL(), source, destination)
	s.Get(t, rides).expect(t, http.StatusOK, toJSON([]map[string]any{{"rideId": mine, "username": name, "timestamp": later}}))
	other := s.NewRide(t, s.NewUser(t, "host"), 0)
	s.Join(t, other, name).expect(t, http.StatusOK, "{}")
	s.Join(t, other, name).expect(t, http.StatusBadRequest, "{}")
	if view := decode[rideView](t, s.Get(t, s.rideURL(other))); !slices.Equal(view.Users, []string{name}) {
		t.Errorf("who shares the ride: got %.80q, want %.80q", view.Users, name)
	}
	if view := decode[rideView](t, s.Get(t, s.rideURL(mine))); view.CreatedBy != name {
		t.Errorf("creator: got %.80q, want %.80q", view.CreatedBy, name)
	}

	s.Call(t, "DELETE", s.userURL(name), "").expect(t, http.StatusOK, "{}")
	s.Get(t, s.userURL(name)).expect(t, http.StatusNotFound, "{}")
	s.Get(t, s.rideURL(mine)).expect(t, http.StatusNoContent, "")
}
