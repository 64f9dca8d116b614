// Package users has the rules of the users service: which users may be created, and how a password is stored. It sits
// between the HTTP routes in users/usersapi and the database behind the orchestrator.
package users

import (
	"context"
	"regexp"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// Reserved is a name that no user can have: /api/v1/users/_count is the counter's path.
const Reserved = "_count"

// sha1Hex is the required form of a password: a SHA-1 in hex, computed by the client.
var sha1Hex = regexp.MustCompile(`^[0-9A-Fa-f]{40}$`)

// DB is what this package needs from the database. *dbclient.Client implements it.
type DB interface {
	Query(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
	Execute(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
}

// Users applies the rules. It is safe for concurrent use.
type Users struct {
	db     DB
	hasher *Hasher
}

// New returns Users on db.
func New(db DB, hasher *Hasher) *Users { return &Users{db: db, hasher: hasher} }

// Create stores a user. A nil error means that the user is on disk. CodeInvalid: name or password are not allowed.
// CodeConstraint: the name is taken. CodeUnavailable: certainly not done. CodeUnknown: it may or may not be done.
//
// With a key, repeating the call produces the same statement, so that a retry gets the first answer again. For that, the
// salt is derived from the key and the name, and no lookup comes first: it would find the user that the first call
// created.
func (u *Users) Create(ctx context.Context, opts dbclient.Options, name, password string) (dbaas.Seq, error) {
	if name == "" || name == Reserved {
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "the username is empty or reserved")
	}
	if !sha1Hex.MatchString(password) {
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "the password is not 40 hex digits")
	}
	salt := randomSalt()
	if opts.Key != "" {
		salt = derivedSalt(opts.Key, name)
	} else {
		// A lookup is far cheaper than a hash. Only the unique key is decisive.
		taken, seq, err := u.Exists(ctx, opts, name)
		if err != nil {
			return seq, err
		}
		if taken {
			return seq, dbaas.Errorf(dbaas.CodeConstraint, "the username is taken")
		}
	}
	hash, err := u.hasher.Hash(ctx, password, salt)
	if err != nil {
		return 0, err
	}
	ans, err := u.db.Execute(ctx, opts, dbclient.SQL(
		"INSERT INTO users(username, password) VALUES(?, ?)", dbaas.Text(name), dbaas.Text(hash)))
	if dbaas.CodeOf(err) == dbaas.CodeConstraint {
		return ans.Seq, dbaas.WrapError(dbaas.CodeConstraint, "the username is taken", err)
	}
	return ans.Seq, err
}

// Delete removes a user with its rides and seats. CodeInvalid: there is no such user. Other errors as for Create.
func (u *Users) Delete(ctx context.Context, opts dbclient.Options, name string) (dbaas.Seq, error) {
	unknown := dbaas.Errorf(dbaas.CodeInvalid, "no such user")
	if !utf8.ValidString(name) { // It would reach the database as a different name.
		return 0, unknown
	}
	ans, err := u.db.Execute(ctx, opts, dbclient.SQL("DELETE FROM users WHERE username = ?", dbaas.Text(name)))
	if err == nil && ans.Results[0].RowsAffected == 0 {
		err = unknown
	}
	return ans.Seq, err
}

// List calls each with every name, in byte order, as the names arrive from the database, and with the position at which
// they were read. It also returns that position.
func List(ctx context.Context, db *dbclient.Client, opts dbclient.Options, each func(seq dbaas.Seq, name string) error) (dbaas.Seq, error) {
	return db.Rows(ctx, opts, dbclient.SQL("SELECT username FROM users ORDER BY username"), func(seq dbaas.Seq, row []any) error {
		name, _ := row[0].(string) // The column is declared TEXT NOT NULL.
		return each(seq, name)
	})
}

// Exists reports whether there is a user of this name.
func (u *Users) Exists(ctx context.Context, opts dbclient.Options, name string) (bool, dbaas.Seq, error) {
	if !utf8.ValidString(name) {
		return false, 0, nil
	}
	ans, err := u.db.Query(ctx, opts, dbclient.SQL("SELECT 1 FROM users WHERE username = ?", dbaas.Text(name)))
	if err != nil {
		return false, ans.Seq, err
	}
	return len(ans.Results[0].Rows) > 0, ans.Seq, nil
}
