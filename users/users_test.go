package users_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/argon2"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/passhash"
	"rideshare/users"
)

const password = "DA39a3ee5e6b4b0d3255bfef95601890afd80709"

// dbFunc fakes users.DB with one function.
type dbFunc func(opts dbclient.Options, stmt dbaas.Statement) (dbclient.Answer, error)

func (f dbFunc) Query(_ context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error) {
	return f(opts, stmts[0])
}

func (f dbFunc) Execute(_ context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error) {
	return f(opts, stmts[0])
}

// cheap is a cost for tests that hash much.
var cheap = passhash.Cost{MemoryKiB: 8, Passes: 1}

// record returns Users on a database without users, and the statements sent to it.
func record() (*users.Users, *[]dbaas.Statement) {
	var sent []dbaas.Statement
	return users.New(dbFunc(func(_ dbclient.Options, s dbaas.Statement) (dbclient.Answer, error) {
		sent = append(sent, s)
		return dbclient.Answer{Results: []dbclient.Result{{}}}, nil
	}), users.NewHasher(cheap)), &sent
}

// The hash is argon2id of the password as it came, verifiable from its own text.
func TestHasher_Hash_IsArgon2id(t *testing.T) {
	salt := [16]byte{1, 2, 3}
	hash, err := users.NewHasher(passhash.Cost{}).Hash(t.Context(), password, salt)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || strings.Join(parts[:4], "$") != "$argon2id$v=19$m=7168,t=5,p=1" {
		t.Fatalf("got %s", hash)
	}
	if parts[4] != base64.RawStdEncoding.EncodeToString(salt[:]) {
		t.Errorf("got salt %s", parts[4])
	}
	want := argon2.IDKey([]byte(password), salt[:], 5, 7168, 1, 32)
	if parts[5] != base64.RawStdEncoding.EncodeToString(want) {
		t.Errorf("got hash %s", parts[5])
	}
}

// Without a key a look-up comes first and each call has a salt of its own.
func TestUsers_Create_NoKey(t *testing.T) {
	u, sent := record()
	for range 2 {
		if _, err := u.Create(t.Context(), dbclient.Options{}, "ann", password); err != nil {
			t.Fatal(err)
		}
	}
	if len(*sent) != 4 || !strings.HasPrefix((*sent)[0].SQL, "SELECT") || (*sent)[1].Args[1].Text == (*sent)[3].Args[1].Text {
		t.Errorf("got %v, want look-up and insert twice, with different hashes", *sent)
	}
}

// With a key there is no look-up and the same call makes the same statement,
// while another key or name makes another salt, and the salt does not depend on the password.
func TestUsers_Create_KeyMakesSameStatement(t *testing.T) {
	u, sent := record()
	salts := make([]string, 0, 5)
	for _, c := range []struct{ key, name, password string }{
		{"k1", "ann", password}, {"k1", "ann", password}, {"k2", "ann", password}, {"k1", "bob", password}, {"k1", "ann", strings.ToLower(password)},
	} {
		if _, err := u.Create(t.Context(), dbclient.Options{Key: c.key}, c.name, c.password); err != nil {
			t.Fatal(err)
		}
		last := (*sent)[len(*sent)-1].Args[1].Text
		salts = append(salts, strings.Split(last, "$")[4])
	}
	hash := func(i int) string { return (*sent)[i].Args[1].Text }
	if len(*sent) != 5 || hash(0) != hash(1) {
		t.Errorf("got %d statements, the same call gave %s and %s", len(*sent), hash(0), hash(1))
	}
	if salts[0] == salts[2] || salts[0] == salts[3] || salts[0] != salts[4] || hash(0) == hash(4) {
		t.Errorf("got salts %v", salts)
	}
}

// A taken name costs no hash.
func TestUsers_Create_TakenIsNotHashed(t *testing.T) {
	var calls int
	u := users.New(dbFunc(func(dbclient.Options, dbaas.Statement) (dbclient.Answer, error) {
		calls++
		return dbclient.Answer{Results: []dbclient.Result{{Rows: [][]any{{int64(1)}}}}}, nil
	}), nil) // A hash would panic.
	if _, err := u.Create(t.Context(), dbclient.Options{}, "ann", password); dbaas.CodeOf(err) != dbaas.CodeConstraint || calls != 1 {
		t.Errorf("got %v after %d calls, want CodeConstraint after 1", err, calls)
	}
}

// What the database says about a constraint is not what the client reads.
func TestUsers_Create_MessageHidesSchema(t *testing.T) {
	u := users.New(dbFunc(func(dbclient.Options, dbaas.Statement) (dbclient.Answer, error) {
		return dbclient.Answer{}, dbaas.Errorf(dbaas.CodeConstraint, "UNIQUE constraint failed: users.username")
	}), users.NewHasher(cheap))
	_, err := u.Create(t.Context(), dbclient.Options{Key: "k"}, "ann", password)
	e, ok := err.(*dbaas.Error) //nolint:errorlint // Its own message is what counts.
	if !ok || e.Code != dbaas.CodeConstraint || strings.Contains(e.Message, "UNIQUE") {
		t.Errorf("got %v", err)
	}
}

// A request that waits too long for its turn to hash is asked to retry later.
func TestHasher_Hash_WaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := users.NewHasher(cheap)
		release := h.Occupy()
		defer release()
		if _, err := h.Hash(t.Context(), password, [16]byte{}); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("got %v, want CodeUnavailable", err)
		}
	})
}
