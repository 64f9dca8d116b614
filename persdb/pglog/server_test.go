package pglog_test

import (
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/persdb/pglog"
)

// A password is refused wherever pgx would find it in the URL, also in a URL that url.Parse cannot read. No error shows it.
func TestCheck_PasswordInTheURL_IsRefused(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{
		"postgres://u:secret@h/db":                                 true,
		"postgres://:secret@h/db":                                  true,
		"postgres://u:secret@h1:5432,[fd00::2]:5432/db":            true,
		"postgres://u:secret@[fd00::1]:5432,h2:5432/db":            true,
		"postgres://u@h/db?password=secret":                        true,
		"postgres://u@h/db?sslmode=require&sslpassword=secret":     true,
		"postgres://u@h1,[fd00::2]/db?pass%77ord=secret":           true,
		"postgres://u@h?password=secret":                           true,
		"postgres://u@h/db":                                        false,
		"postgresql://u@h1:5432,[fd00::2]:5432/db":                 false,
		"postgres://u@h/db?application_name=a:b@c&passfile=secret": false,
	} {
		err := pglog.Check(address)
		text := fmt.Sprint(err)
		switch {
		case !refused && err != nil:
			t.Errorf("%s: got %s, want no error", address, text)
		case refused && (dbaas.CodeOf(err) != dbaas.CodeInvalid || !strings.Contains(text, "has a password") || strings.Contains(text, "secret")):
			t.Errorf("%s: got %s, want code %q, that it has a password, and not the password", address, text, dbaas.CodeInvalid)
		}
	}
}
