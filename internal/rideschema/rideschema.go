// Package rideschema is the schema of the rideshare application: the tables that the services users and rides use, and
// what the database service must know about them. The wiring passes it to persdb and to the orchestrator, whose own
// code names no table.
package rideschema

import "rideshare/internal/dbaas"

// Create returns the statements that create the tables and their indexes in an empty database.
//
// users keeps its rowid: user names may be 100,000 characters long, and a table without rowid would repeat them in its
// inner pages.
func Create() []string {
	return []string{
		`CREATE TABLE users(
		username TEXT NOT NULL PRIMARY KEY,
		password TEXT NOT NULL)`,
		`CREATE TABLE rides(
		rideId INTEGER PRIMARY KEY AUTOINCREMENT,
		created_by TEXT NOT NULL REFERENCES users(username) ON DELETE CASCADE ON UPDATE CASCADE,
		timestamp TEXT NOT NULL,
		source INTEGER NOT NULL,
		destination INTEGER NOT NULL,
		seats INTEGER)`,
		`CREATE INDEX rides_route ON rides(source, destination)`,
		`CREATE INDEX rides_creator ON rides(created_by)`,
		`CREATE TABLE riders(
		rideId INTEGER NOT NULL REFERENCES rides(rideId) ON DELETE CASCADE ON UPDATE CASCADE,
		user TEXT NOT NULL REFERENCES users(username) ON DELETE CASCADE ON UPDATE CASCADE,
		PRIMARY KEY(rideId, user))`,
		`CREATE INDEX riders_user ON riders(user)`,
		`CREATE TABLE apicount(
		service_name TEXT NOT NULL PRIMARY KEY,
		count INTEGER NOT NULL)`,
	}
}

// Protected returns the names of all tables and indexes of Create. Clients may read and write the tables and add
// indexes of columns that are not UNIQUE. They may not drop or alter any of these tables and indexes.
func Protected() []string {
	return []string{"users", "rides", "riders", "apicount", "rides_route", "rides_creator", "riders_user"}
}

// Present is a query that fails if a table or column that the services need is missing. It reads at most one row of
// each table.
const Present = `SELECT EXISTS(SELECT username, password FROM users), EXISTS(SELECT rideId, created_by, timestamp, source, destination, seats FROM rides),
 EXISTS(SELECT rideId, user FROM riders), EXISTS(SELECT service_name, count FROM apicount)`

// Clear returns the statements that empty users, rides and riders, and restart ride ids at 1. The request counters stay.
func Clear() []dbaas.Statement {
	return []dbaas.Statement{
		{SQL: `DELETE FROM riders`},
		{SQL: `DELETE FROM rides`},
		{SQL: `DELETE FROM users`},
		{SQL: `DELETE FROM sqlite_sequence WHERE name = 'rides'`},
	}
}
