package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// field is one member of a valid body, its value as JSON text.
type field struct{ name, value string }

// object writes the fields as one JSON object.
func object(fields ...field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = toJSON(f.name) + ":" + f.value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// brokenBodies returns bodies that break the form of a body with exactly these fields, each in one way.
func brokenBodies(fields []field) map[string]string {
	whole := object(fields...)
	broken := map[string]string{
		"Empty": "", "Space": " \n", "Null": "null", "Array": "[]", "Text": `"x"`, "Number": "1", "InAnArray": "[" + whole + "]",
		"NoFields":      "{}",
		"CutOff":        whole[:len(whole)-1],
		"TwoValues":     whole + whole,
		"TrailingText":  whole + " x",
		"TrailingBrace": whole + "}",
		"TrailingComma": whole[:len(whole)-1] + ",}",
		"SingleQuotes":  strings.ReplaceAll(whole, `"`, `'`),
		"Comment":       whole + "// comment",
		"NotUTF8":       strings.Replace(whole, `"`, "\"\xff", 1),
		"ByteOrderMark": "\ufeff" + whole,
		"UnknownField":  object(append(slices.Clip(fields), field{"x", "1"})...),
		"UnknownNull":   object(append(slices.Clip(fields), field{"x", "null"})...),
		"Form":          "username=ann&password=x",
	}
	for i, f := range fields {
		with := func(changed ...field) string {
			return object(append(append(append([]field{}, fields[:i]...), changed...), fields[i+1:]...)...)
		}
		broken["Without_"+f.name] = with()
		broken["Twice_"+f.name] = with(f, f)
		broken["TwiceEscaped_"+f.name] = strings.Replace(with(f, f), `"`+f.name[:1], `"\u00`+hexOf(f.name[0]), 1)
		broken["UpperCase_"+f.name] = with(field{strings.ToUpper(f.name), f.value})
		broken["Title_"+f.name] = with(field{strings.ToUpper(f.name[:1]) + f.name[1:], f.value})
		broken["BothCases_"+f.name] = with(f, field{strings.ToUpper(f.name), f.value})
		broken["Null_"+f.name] = with(field{f.name, "null"})
		broken["Object_"+f.name] = with(field{f.name, "{}"})
		broken["Array_"+f.name] = with(field{f.name, "[" + f.value + "]"})
		broken["Bool_"+f.name] = with(field{f.name, "true"})
		broken["Float_"+f.name] = with(field{f.name, "1.5"})
	}
	return broken
}

func hexOf(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// Every service refuses a body that is not exactly what its call takes, with 400
// and `{}`, and does nothing.
func TestBodies_NotExactlyWhatTheCallTakes_Refused(t *testing.T) {
	sys := shared(t)
	name, ann := newName("strict"), sys.NewUser(t, "ann")
	id := sys.NewRide(t, ann, 0)
	from, to := newRoute()
	for _, c := range []struct {
		name, method, url string
		fields            []field
	}{
		{"PutUser", "PUT", sys.usersURL(), []field{{"username", toJSON(name)}, {"password", toJSON(sha1Of("x"))}}},
		{"PostRide", "POST", sys.ridesURL(), []field{{"created_by", toJSON(ann)}, {"timestamp", toJSON(later)}, {"source", toJSON(from)}, {"destination", toJSON(to)}}},
		{"JoinRide", "POST", sys.rideURL(id), []field{{"username", toJSON(sys.NewUser(t, "bob"))}}},
	} {
		for label, body := range brokenBodies(c.fields) {
			t.Run(c.name+"/"+label, func(t *testing.T) {
				a := sys.Call(t, c.method, c.url, body)
				if err := a.check(http.StatusBadRequest, "{}"); err != nil {
					t.Errorf("%s %q: %v", c.method, body, err)
				}
			})
		}
	}
	sys.Get(t, sys.userURL(name)).expect(t, http.StatusNotFound, "{}")
	if view := decode[rideView](t, sys.Get(t, sys.rideURL(id))); len(view.Users) != 0 {
		t.Errorf("who shares the ride after refused bodies only: got %v, want nobody", view.Users)
	}
	sys.Get(t, fmt.Sprintf("%s?source=%d&destination=%d", sys.ridesURL(), from, to)).expect(t, http.StatusNoContent, "")
}

// A GET or DELETE with a non-empty object is refused and does nothing; no body,
// space and `{}` are fine. The gateway passes such bodies on.
func TestBodies_OnGetAndDelete_OnlyEmptyOnesPass(t *testing.T) {
	sys := shared(t)
	ann := sys.NewUser(t, "ann")
	id := sys.NewRide(t, ann, 0)
	from, to := newRoute()
	ride := sys.rideURL(id)
	for _, c := range []struct {
		name, method, url string
		fine              int
	}{
		{"ListUsers", "GET", sys.usersURL(), 200},
		{"LookUpUser", "GET", sys.userURL(ann), 200},
		{"CountUsersRequests", "GET", sys.Users + "/api/v1/_count", 200},
		{"ListRides", "GET", sys.ridesURL() + fmt.Sprintf("?source=%d&destination=%d", from, to), 204},
		{"ShowRide", "GET", ride, 200},
		{"CountRides", "GET", sys.ridesURL() + "/count", 200},
		{"CountRidesRequests", "GET", sys.Rides + "/api/v1/_count", 200},
		{"DeleteRide", "DELETE", ride, 200},
		{"DeleteUser", "DELETE", sys.userURL(ann), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, body := range []string{`{"a":1}`, `{"username":"x"}`, `{"a":{}}`} {
				if err := sys.Call(t, c.method, c.url, body).check(http.StatusBadRequest, "{}"); err != nil {
					t.Errorf("body %q: %v", body, err)
				}
			}
			fine := []string{"{}", " {} \n", ""}
			if c.method == "DELETE" {
				fine = fine[:1] // the second would find nothing to delete
			}
			for _, body := range fine {
				if err := sys.Call(t, c.method, c.url, body).check(c.fine, anyBody); err != nil {
					t.Errorf("body %q: %v", body, err)
				}
			}
		})
	}
}

// A body over the limit is 413, whether its length is announced or not.
func TestBodies_OverTheLimit_TooLarge(t *testing.T) {
	sys := shared(t)
	body := userBody(strings.Repeat("x", 1<<20))
	for _, c := range []exchange{
		{method: "PUT", url: sys.usersURL()},
		{method: "PUT", url: sys.Users + "/api/v1/users"},
		{method: "POST", url: sys.ridesURL()},
		{method: "POST", url: sys.db("/api/v1/db/read")},
		{method: "POST", url: sys.db("/api/v1/db/write")},
	} {
		whole := unbroken(t, func() (answer, error) { return sys.Try(t.Context(), c.method, c.url, body) })
		if err := whole.check(http.StatusRequestEntityTooLarge, "{}"); err != nil {
			t.Errorf("%s %s: %v", c.method, c.url, err)
		}
		inChunks := unbroken(t, func() (answer, error) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, chunked{strings.NewReader(body)})
			if err != nil {
				return answer{}, err
			}
			return sys.send(req)
		})
		if err := inChunks.check(http.StatusRequestEntityTooLarge, "{}"); err != nil {
			t.Errorf("%s %s, chunked: %v", c.method, c.url, err)
		}
	}
}

// unbroken repeats a call with a body over the limit until the connection does not break. The server refuses such a body
// early and soon closes the connection, so that a client which stands still in the meantime does not read the answer.
func unbroken(t *testing.T, call func() (answer, error)) (a answer) {
	t.Helper()
	eventually(t, callLimit, func() (err error) {
		a, err = call()
		if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Fatal(err)
		}
		return err
	})
	return a
}

// chunked hides the length of a body, so that it is sent in chunks.
type chunked struct{ body *strings.Reader }

func (c chunked) Read(p []byte) (int, error) { return c.body.Read(p) }

// The SQL form takes bodies up to 64 MiB.
func TestBodies_SQLForm_TakesUpTo64MiB(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, v TEXT NOT NULL")
	text := strings.Repeat("y", 3<<20)
	sys.Exec(t, "INSERT INTO "+table+"(v) VALUES(?)", text)
	if n := sys.QueryInt(t, "SELECT length(v) FROM "+table); n != len(text) {
		t.Errorf("length of the stored text: got %d, want %d", n, len(text))
	}
	over := sqlBody("INSERT INTO "+table+"(v) VALUES(?)", strings.Repeat("z", 64<<20))
	unbroken(t, func() (answer, error) { return sys.Try(t.Context(), http.MethodPost, sys.db("/db/execute"), over) }).
		expect(t, http.StatusRequestEntityTooLarge, anyBody)
}
