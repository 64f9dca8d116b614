package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Each call in the table of the users service in docs/API.md answers exactly as written there.
func TestUsers_EachCall_AnswersAsDocumented(t *testing.T) {
	sys := shared(t)
	ann, upper := newName("ann"), strings.ToUpper(newName("ann"))
	users := sys.usersURL()
	sys.play(t, []exchange{
		{name: "Create", method: "PUT", url: users, body: userBody(ann), status: 201, answer: "{}"},
		{name: "CreateAgain", method: "PUT", url: users, body: userBody(ann), status: 400, answer: "{}"},
		{name: "CreateInUpperCase", method: "PUT", url: users, body: userBody(upper), status: 201, answer: "{}"},
		{name: "CreateInLowerCase", method: "PUT", url: users, body: userBody(strings.ToLower(upper)), status: 201, answer: "{}"},
		{name: "LookUp", method: "GET", url: sys.userURL(ann), status: 200, answer: toJSON(map[string]string{"username": ann})},
		{name: "LookUpUnknown", method: "GET", url: sys.userURL(ann + "-no"), status: 404, answer: "{}"},
		{name: "LookUpOtherCase", method: "GET", url: sys.userURL(strings.ToUpper(ann)), status: 404, answer: "{}"},
		{name: "DeleteUnknown", method: "DELETE", url: sys.userURL(ann + "-no"), status: 400, answer: "{}"},
		{name: "Delete", method: "DELETE", url: sys.userURL(ann), status: 200, answer: "{}"},
		{name: "DeleteAgain", method: "DELETE", url: sys.userURL(ann), status: 400, answer: "{}"},
		{name: "LookUpDeleted", method: "GET", url: sys.userURL(ann), status: 404, answer: "{}"},
		{name: "CreateDeleted", method: "PUT", url: users, body: userBody(ann), status: 201, answer: "{}"},
		{name: "ReservedName", method: "PUT", url: users, body: userBody("_count"), status: 400, answer: "{}"},
		{name: "EmptyName", method: "PUT", url: users, body: userBody(""), status: 400, answer: "{}"},
		{name: "Root", method: "GET", url: sys.Users + "/", status: 200, answer: anyBody},
		{name: "NoContentType", method: "PUT", url: users, body: userBody(newName("ann")), status: 201, answer: "{}"},
		{
			name: "StrangeContentType", method: "PUT", url: users, body: userBody(newName("ann")),
			headers: []string{"Content-Type", "text/plain; charset=latin1"}, status: 201, answer: "{}",
		},
	})
}

// The list names every user, as an array of names.
func TestUsers_List_NamesEveryUser(t *testing.T) {
	sys := shared(t)
	ann, bob := sys.NewUser(t, "ann"), sys.NewUser(t, "bob")
	names := decode[[]string](t, sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, anyBody))
	for _, name := range []string{ann, bob} {
		if !slices.Contains(names, name) {
			t.Errorf("%q is not in the list", name)
		}
	}
}

// A password is a SHA-1 in hex, 40 digits of either case and nothing around them.
func TestUsers_Password_MustBeASHA1InHex(t *testing.T) {
	sys := shared(t)
	digits := sha1Of("secret")
	for password, status := range map[string]int{
		digits:                             201,
		strings.ToUpper(digits):            201,
		strings.Repeat("0", 40):            201,
		strings.Repeat("aB", 20):           201,
		"":                                 400,
		digits[1:]:                         400,
		digits + "0":                       400,
		digits[1:] + "g":                   400,
		digits + "\n":                      400,
		"\n" + digits:                      400,
		" " + digits[1:]:                   400,
		digits[1:] + "é":                   400,
		digits + "\n" + digits:             400,
		strings.Repeat("\uff10", 40):       400, // full-width zeros
		"0x" + digits[2:]:                  400,
		strings.Repeat("0", 100_000):       400,
		digits[:20] + "\x00" + digits[21:]: 400,
	} {
		body := toJSON(map[string]string{"username": newName("pw"), "password": password})
		if err := sys.Call(t, "PUT", sys.usersURL(), body).check(status, "{}"); err != nil {
			t.Errorf("password %.60q: %v", password, err)
		}
	}
}

// What is stored is a salted slow hash: never the password as sent, and not the
// same for two users with the same one.
func TestUsers_StoredPassword_IsASaltedHash(t *testing.T) {
	sys := shared(t)
	stored := map[string]bool{}
	for range 2 {
		name := newName("salt")
		body := toJSON(map[string]string{"username": name, "password": sha1Of("same")})
		sys.Call(t, "PUT", sys.usersURL(), body).expect(t, http.StatusCreated, "{}")
		rows := sys.Query(t, "SELECT password FROM users WHERE username = ?", name)
		if len(rows) != 1 {
			t.Fatalf("%q: got %d rows, want 1", name, len(rows))
		}
		text := string(rows[0][0])
		if !strings.HasPrefix(text, `"$argon2id$`) || strings.Contains(text, sha1Of("same")) {
			t.Errorf("stored password: got %s, want an argon2id hash", text)
		}
		stored[text] = true
	}
	if len(stored) != 2 {
		t.Error("two users with one password have the same stored text")
	}
}

// Deleting a user deletes the user's rides and seats, and no other user's.
func TestUsers_Delete_TakesRidesAndSeatsAlong(t *testing.T) {
	sys := shared(t)
	ann, bob, eve := sys.NewUser(t, "ann"), sys.NewUser(t, "bob"), sys.NewUser(t, "eve")
	anns, bobs := sys.NewRide(t, ann, 0), sys.NewRide(t, bob, 2)
	sys.Join(t, anns, bob).expect(t, http.StatusOK, "{}")
	sys.Join(t, bobs, ann).expect(t, http.StatusOK, "{}")
	sys.Join(t, bobs, eve).expect(t, http.StatusOK, "{}")

	sys.Call(t, "DELETE", sys.userURL(ann), "").expect(t, http.StatusOK, "{}")

	sys.Get(t, sys.rideURL(anns)).expect(t, http.StatusNoContent, "")
	left := decode[rideView](t, sys.Get(t, sys.rideURL(bobs)).expect(t, http.StatusOK, anyBody))
	if !slices.Equal(left.Users, []string{eve}) {
		t.Errorf("who still shares the ride: got %v, want only %s", left.Users, eve)
	}
	if left.SeatsLeft == nil || *left.SeatsLeft != 1 {
		t.Errorf("seats left: got %v, want 1", left.SeatsLeft)
	}
	if n := sys.QueryInt(t, "SELECT count(*) FROM riders WHERE rideId = ?", anns); n != 0 {
		t.Errorf("riders of the deleted ride: got %d, want 0", n)
	}
}

// Of many concurrent requests to create the same user, one succeeds.
func TestUsers_SameNameAtOnce_OneIsCreated(t *testing.T) {
	sys := shared(t)
	const callers = 16
	body := userBody(newName("race"))
	statuses := make([]int, callers)
	err := together(callers, func(i int) error {
		a, err := sys.Try(t.Context(), "PUT", sys.usersURL(), body)
		statuses[i] = a.Status
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(statuses)
	if statuses[0] != http.StatusCreated || statuses[1] != http.StatusBadRequest || statuses[callers-1] != http.StatusBadRequest {
		t.Errorf("statuses: got %v, want one 201 and else 400", statuses)
	}
}
