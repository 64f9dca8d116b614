package httpapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"rideshare/internal/passhash"
)

var errForm = errors.New(`it must be "user NAME ROLE HASH", "token NAME ROLE sha256:HEX", "bearer TOKEN" or "basic USER:PASSWORD"`)

// table is the contents of a credentials file. It is not changed after parsing.
type table struct {
	secrets []secret
	users   []*user
	byName  map[string]*user
	onlyOld bool   // there are only bearer and basic lines
	first   string // the Authorization header of the first bearer or basic line
}

func parseTable(text string) (*table, error) {
	t := &table{byName: map[string]*user{}, onlyOld: true}
	n, lines := 0, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		lines++
		if err := t.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", n, err, ErrCredentials) // not the line, which is secret
		}
	}
	if lines == 0 {
		return nil, fmt.Errorf("no credentials in it: %w", ErrCredentials)
	}
	return t, nil
}

// add adds a line. Its errors contain no text of the line, which is secret.
func (t *table) add(line string) error {
	fields := strings.Fields(line)
	kind := fields[0]
	if kind != "user" && kind != "token" {
		return t.addOld(line)
	}
	t.onlyOld = false
	if len(fields) != 4 {
		return errForm
	}
	name, value := fields[1], fields[3]
	role, err := ParseRole(fields[2])
	if err = cmp.Or(err, CheckName(name)); err != nil {
		return err
	}
	if kind == "user" {
		return t.addUser(&user{name: name, role: role, hash: value})
	}
	digits, found := strings.CutPrefix(value, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !found || err != nil || len(sum) != sha256.Size {
		return errors.New("after the role stands sha256: and 64 hex digits")
	}
	return t.addSecret(secret{hash: [sha256.Size]byte(sum), role: role, name: name})
}

// addOld adds a bearer or basic line, the format from before roles existed.
func (t *table) addOld(line string) error {
	kind, value, _ := strings.Cut(line, " ")
	value = strings.TrimSpace(value)
	user, _, paired := strings.Cut(value, ":")
	s, header := secret{role: Admin}, ""
	switch {
	case kind == "bearer" && value != "" && !strings.Contains(value, " "):
		s.hash, header = sha256.Sum256([]byte(value)), "Bearer "+value
		s.name = hex.EncodeToString(s.hash[:4])
	case kind == "basic" && paired && user != "":
		s.hash, header, s.name = hashBasic(value), basicHeader(value), user
	default:
		return errForm
	}
	t.first = cmp.Or(t.first, header)
	return t.addSecret(s)
}

// addSecret refuses a secret that an earlier line has with another role: choosing one of the roles would be a guess.
func (t *table) addSecret(s secret) error {
	if other := roleOf(t.secrets, s.hash); other > Open && other != s.role {
		return errors.New("an earlier line has the same credentials with another role")
	}
	t.secrets = append(t.secrets, s)
	return nil
}

func (t *table) addUser(u *user) error {
	if err := passhash.Check(u.hash); err != nil {
		return err
	}
	if t.byName[u.name] != nil {
		return errors.New("an earlier line has the same user")
	}
	t.byName[u.name] = u
	t.users = append(t.users, u)
	return nil
}

// keepVerified copies the verified passwords of old, so that a changed file does not make all users wait for the slow
// hash.
func (t *table) keepVerified(old *table) {
	for _, u := range t.users {
		if before := old.byName[u.name]; before != nil && before.hash == u.hash {
			u.verified.Store(before.verified.Load())
		}
	}
}
