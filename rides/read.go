package rides

import (
	"context"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// moment converts the column timestamp, DD-MM-YYYY:SS-MM-HH, to text that sorts by time, in the form of sortLayout.
const moment = "substr(timestamp,7,4)||substr(timestamp,4,2)||substr(timestamp,1,2)" +
	"||substr(timestamp,18,2)||substr(timestamp,15,2)||substr(timestamp,12,2)"

// sortLayout is moment's form for package time: year, month, day, hour, minute, second.
const sortLayout = "20060102150405"

// Upcoming calls each with the future rides from source to destination, ordered by id, as they arrive from the database,
// and with the position at which they were read. It also returns that position. CodeInvalid: an area does not exist, or
// both are the same.
func (r *Rides) Upcoming(ctx context.Context, opts dbclient.Options, source, destination Area, each func(dbaas.Seq, Upcoming) error) (dbaas.Seq, error) {
	if err := r.checkRoute(source, destination); err != nil {
		return 0, err
	}
	now := r.cfg.Now().In(r.cfg.Location).Format(sortLayout)
	return r.cfg.DB.Rows(ctx, opts, dbclient.SQL(
		"SELECT rideId, created_by, timestamp FROM rides WHERE source = ? AND destination = ? AND "+moment+" > ? ORDER BY rideId",
		dbaas.Integer(int64(source)), dbaas.Integer(int64(destination)), dbaas.Text(now)),
		func(seq dbaas.Seq, row []any) error {
			return each(seq, Upcoming{ID: integer(row[0]), CreatedBy: text(row[1]), Timestamp: text(row[2])})
		})
}

// Get returns one ride, or nil if there is no ride with this id. Ride and riders are read from one state.
func (r *Rides) Get(ctx context.Context, opts dbclient.Options, id int64) (*Ride, dbaas.Seq, error) {
	ans, err := r.cfg.DB.Query(ctx, opts,
		dbclient.SQL("SELECT created_by, timestamp, source, destination, seats FROM rides WHERE rideId = ?", dbaas.Integer(id)),
		dbclient.SQL("SELECT user FROM riders WHERE rideId = ? ORDER BY user", dbaas.Integer(id)))
	if err != nil || len(ans.Results[0].Rows) == 0 {
		return nil, ans.Seq, err
	}
	row := ans.Results[0].Rows[0]
	ride := &Ride{
		ID: id, CreatedBy: text(row[0]), Timestamp: text(row[1]),
		Source: integer(row[2]), Destination: integer(row[3]), Riders: []string{},
	}
	if seats, ok := row[4].(int64); ok {
		ride.Seats = &seats
	}
	for _, rider := range ans.Results[1].Rows {
		ride.Riders = append(ride.Riders, text(rider[0]))
	}
	return ride, ans.Seq, nil
}

// Count returns how many rides there are.
func (r *Rides) Count(ctx context.Context, opts dbclient.Options) (int64, dbaas.Seq, error) {
	ans, err := r.cfg.DB.Query(ctx, opts, dbclient.SQL("SELECT count(*) FROM rides"))
	if err != nil {
		return 0, ans.Seq, err
	}
	return integer(ans.Results[0].Rows[0][0]), ans.Seq, nil
}

// integer and text read columns whose type the schema fixes; any other type gives the zero value.
func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
