package commitlog

// application is the schema of the rideshare application, created with the file. Source: api.md of the project,
// "statements, the structured form".
//
// Clients may read and write these tables and add indexes that are not UNIQUE, but may not drop or alter the tables.
//
// users keeps its rowid: names may be 100,000 characters long, and a table without rowid would repeat them in its inner
// pages.
var application = [...]string{
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

// protected returns the names of the application's tables and indexes.
func protected() []string {
	return []string{"users", "rides", "riders", "apicount", "rides_route", "rides_creator", "riders_user"}
}
