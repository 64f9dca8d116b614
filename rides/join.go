package rides

import (
	"context"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// The statements of Join. They run as one operation at the only writer, so that what the first statement saw still holds
// when the second one inserts.
const (
	joinLook = "SELECT created_by = ?2, EXISTS(SELECT 1 FROM riders WHERE rideId = ?1 AND user = ?2)," +
		" seats IS NULL OR (SELECT count(*) FROM riders WHERE rideId = ?1) < seats FROM rides WHERE rideId = ?1"
	joinInsert = "INSERT INTO riders(rideId, user) SELECT rideId, ?2 FROM rides WHERE rideId = ?1 AND created_by <> ?2" +
		" AND NOT EXISTS(SELECT 1 FROM riders WHERE rideId = ?1 AND user = ?2)" +
		" AND (seats IS NULL OR (SELECT count(*) FROM riders WHERE rideId = ?1) < seats)"
)

// Join gives user a seat in a ride. A nil error means that the seat is on disk. The checks come in this order.
// CodeInvalid: no such user. CodeNotFound: no such ride. CodeInvalid: the user is the creator or has already joined.
// CodeConflict: no seat is left. Other errors as for Create.
func (r *Rides) Join(ctx context.Context, opts dbclient.Options, id int64, user string) (dbaas.Seq, error) {
	known, err := r.cfg.Users.Exists(ctx, user, opts.MinSeq)
	if err != nil {
		return 0, err
	}
	// With a key this may be a retry; see Create.
	if !known && opts.Key == "" {
		return 0, errNoUser()
	}
	ans, err := r.cfg.DB.Request(ctx, opts,
		dbclient.SQL(joinLook, dbaas.Integer(id), dbaas.Text(user)),
		dbclient.SQL(joinInsert, dbaas.Integer(id), dbaas.Text(user)))
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeConstraint: // The user was deleted after the check.
		return ans.Seq, dbaas.WrapError(dbaas.CodeInvalid, "no such user", err)
	case err != nil:
		return ans.Seq, err
	case ans.Results[1].RowsAffected > 0:
		return ans.Seq, nil
	case !known:
		return ans.Seq, errNoUser()
	}
	return ans.Seq, whyNot(ans.Results[0].Rows)
}

// whyNot returns the first rule that a rejected join violated, according to the rows of joinLook.
func whyNot(rows [][]any) error {
	switch {
	case len(rows) == 0:
		return dbaas.Errorf(dbaas.CodeNotFound, "no such ride")
	case integer(rows[0][0]) == 1:
		return dbaas.Errorf(dbaas.CodeInvalid, "the creator has a seat already")
	case integer(rows[0][1]) == 1:
		return dbaas.Errorf(dbaas.CodeInvalid, "the user has joined already")
	case integer(rows[0][2]) == 0:
		return dbaas.Errorf(dbaas.CodeConflict, "no seat is left")
	}
	return dbaas.Errorf(dbaas.CodeInternal, "join refused without a reason")
}
