// Package rides has the rules of the rides service: which rides may be created, which users may join, and which rides
// are upcoming. It sits between the HTTP routes in rides/ridesapi, the users service, and the database behind the
// orchestrator.
package rides

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// Users is what this package needs from the users service. *usercheck.Client implements it.
type Users interface {
	// Exists asks the users service, exactly once and without a cache, whether this user exists at minSeq or later.
	// CodeUnavailable: the users service did not answer. A refusal of the users service has its own code.
	Exists(ctx context.Context, name string, minSeq dbaas.Seq) (bool, error)
}

// Config is what Rides needs. All fields are required.
type Config struct {
	DB    *dbclient.Client
	Users Users
	// Now is the service's clock and Location its time zone: together they determine which rides are upcoming.
	Now      func() time.Time
	Location *time.Location
}

// Rides applies the rules. It is safe for concurrent use.
type Rides struct {
	cfg   Config
	areas map[Area]string
}

// New returns Rides. An error means that the built-in areas are malformed.
func New(cfg Config) (*Rides, error) {
	areas, err := readAreas()
	if err != nil {
		return nil, err
	}
	return &Rides{cfg: cfg, areas: areas}, nil
}

// Ride is one ride with the users who joined it.
type Ride struct {
	ID          int64
	CreatedBy   string
	Riders      []string // in byte order, without the creator
	Timestamp   string
	Source      int64
	Destination int64
	Seats       *int64 // nil: no limit
}

// Upcoming is a ride in a list.
type Upcoming struct {
	ID        int64
	CreatedBy string
	Timestamp string
}

// NewRide is a ride as requested by a client.
type NewRide struct {
	CreatedBy   string
	Timestamp   string
	Source      Area
	Destination Area
	Seats       *int64 // nil: no limit
}

// checkRoute returns CodeInvalid unless both areas exist and differ.
func (r *Rides) checkRoute(source, destination Area) error {
	for _, area := range []Area{source, destination} {
		if _, ok := r.areas[area]; !ok {
			return dbaas.Errorf(dbaas.CodeInvalid, "there is no area %d", area)
		}
	}
	if source == destination {
		return dbaas.Errorf(dbaas.CodeInvalid, "source and destination are the same")
	}
	return nil
}

// Create stores a ride and returns its id. A nil error means that the ride is on disk. CodeInvalid: a field or the
// creator is invalid. CodeUnavailable: certainly not done. CodeUnknown: it may or may not be done.
func (r *Rides) Create(ctx context.Context, opts dbclient.Options, n NewRide) (int64, dbaas.Seq, error) {
	if err := CheckTimestamp(n.Timestamp); err != nil {
		return 0, 0, err
	}
	if err := r.checkRoute(n.Source, n.Destination); err != nil {
		return 0, 0, err
	}
	if n.Seats != nil && *n.Seats < 1 {
		return 0, 0, dbaas.Errorf(dbaas.CodeInvalid, "seats is less than 1")
	}
	known, err := r.cfg.Users.Exists(ctx, n.CreatedBy, opts.MinSeq)
	if err != nil {
		return 0, 0, err
	}
	// With a key this may repeat a call whose user has been deleted since; it gets the first answer again. In all other
	// cases the foreign key rejects the ride.
	if !known && opts.Key == "" {
		return 0, 0, errNoUser()
	}
	seats := dbaas.Null()
	if n.Seats != nil {
		seats = dbaas.Integer(*n.Seats)
	}
	ans, err := r.cfg.DB.Execute(ctx, opts, dbclient.SQL(
		"INSERT INTO rides(created_by, timestamp, source, destination, seats) VALUES(?, ?, ?, ?, ?)",
		dbaas.Text(n.CreatedBy), dbaas.Text(n.Timestamp), dbaas.Integer(int64(n.Source)), dbaas.Integer(int64(n.Destination)), seats))
	if dbaas.CodeOf(err) == dbaas.CodeConstraint {
		return 0, ans.Seq, dbaas.WrapError(dbaas.CodeInvalid, "no such user", err)
	}
	if err != nil {
		return 0, ans.Seq, err
	}
	return ans.Results[0].LastInsertID, ans.Seq, nil
}

// Delete removes a ride with its seats. CodeInvalid: there is no such ride. Other errors as for Create.
func (r *Rides) Delete(ctx context.Context, opts dbclient.Options, id int64) (dbaas.Seq, error) {
	ans, err := r.cfg.DB.Execute(ctx, opts, dbclient.SQL("DELETE FROM rides WHERE rideId = ?", dbaas.Integer(id)))
	if err == nil && ans.Results[0].RowsAffected == 0 {
		err = dbaas.Errorf(dbaas.CodeInvalid, "no such ride")
	}
	return ans.Seq, err
}

func errNoUser() error { return dbaas.Errorf(dbaas.CodeInvalid, "no such user") }
