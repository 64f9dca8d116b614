package passhash_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"rideshare/internal/passhash"
)

// reference is a hash of the reference implementation's own test, with the password "password".
const reference = "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"

func bcryptOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// A hash verifies its own password and no other.
func TestVerify(t *testing.T) {
	own := passhash.Argon2id("secret", [passhash.SaltSize]byte{1}, passhash.Cost{MemoryKiB: 8, Passes: 1})
	blowfish := bcryptOf(t, "secret")
	for _, tt := range []struct {
		hash, password string
		want           bool
	}{
		{own, "secret", true},
		{own, "Secret", false},
		{own, "", false},
		{reference, "password", true},
		{reference, "passwor", false},
		{blowfish, "secret", true},
		{blowfish, "Secret", false},
		{"", "", false},
		{"x", "x", false},
	} {
		if got := passhash.Verify(tt.hash, tt.password); got != tt.want {
			t.Errorf("%s with %q: got %v, want %v", tt.hash, tt.password, got, tt.want)
		}
		if err := passhash.Check(tt.hash); (err == nil) != strings.HasPrefix(tt.hash, "$") {
			t.Errorf("%s: got %v", tt.hash, err)
		}
	}
}

// What is no hash, or one that costs too much, is refused.
func TestCheck_Malformed_IsErrForm(t *testing.T) {
	for _, change := range [][2]string{
		{"argon2id", "argon2i"},
		{"v=19", "v=16"},
		{"v=19$", ""},
		{"m=256", "m=4194304"},
		{"m=256", "m=+256"},
		{"m=256", "m=256.0"},
		{"m=256", "m=15"},
		{"m=256", "m=4294967552"},
		{"t=2", "t=0"},
		{"t=2", "t=33"},
		{"p=2", "p=0"},
		{"p=2", "p=17"},
		{"p=2", "p=2x"},
		{"c29tZXNhbHQ", "c29t"},
		{"c29tZXNhbHQ", "c29tZXNhbHQ="},
		{"bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc", "bQk8"},
		{"$bQk8", "$$bQk8"},
	} {
		text := strings.Replace(reference, change[0], change[1], 1)
		if err := passhash.Check(text); !errors.Is(err, passhash.ErrForm) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	good := bcryptOf(t, "secret")
	for _, text := range []string{good[:59], good + "x", strings.Replace(good, "$04$", "$31$", 1), strings.Replace(good, "$04$", "$03$", 1), strings.Replace(good, "2a", "2x", 1)} {
		if err := passhash.Check(text); !errors.Is(err, passhash.ErrForm) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
