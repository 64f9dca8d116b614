package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// query is one question about the rides. sql names values of the path, as in :day. answer makes the answer from the rows.
type query struct {
	sql    string
	answer func(rows [][]any) (any, error)
}

// queries are the questions by path.
var queries = map[string]query{
	ridePath: {
		"SELECT coalesce(sum(lift_id), 0) * 10 FROM ski_rides WHERE resort_id = :resort AND season_id = :season AND day_id = :day AND skier_id = :skier",
		func(rows [][]any) (any, error) { return rows[0][0], nil },
	},
	"/skiers/{skier}/seasons/{season}/days": {
		"SELECT DISTINCT day_id FROM ski_rides WHERE skier_id = :skier AND season_id = :season ORDER BY day_id",
		func(rows [][]any) (any, error) { return object{"days": first(rows), "count": len(rows)}, nil },
	},
	"/skiers/{skier}/seasons/{season}/verticals": {
		"SELECT day_id, sum(lift_id) * 10 FROM ski_rides WHERE skier_id = :skier AND season_id = :season GROUP BY day_id ORDER BY day_id",
		objects("days", "dayID", "vertical"),
	},
	"/skiers/{skier}/seasons/{season}/days/{day}/lifts": {
		`SELECT resort_id, lift_id, count(*) FROM ski_rides WHERE skier_id = :skier AND season_id = :season AND day_id = :day
		 GROUP BY resort_id, lift_id ORDER BY resort_id, lift_id`,
		objects("lifts", "resortID", "liftID", "rides"),
	},
	"/resorts/{resort}/seasons/{season}/days/{day}/skiers": {
		`SELECT (SELECT name FROM ski_resorts WHERE resort_id = :resort), count(DISTINCT skier_id)
		 FROM ski_rides WHERE resort_id = :resort AND season_id = :season AND day_id = :day`,
		func(rows [][]any) (any, error) { return object{"time": rows[0][0], "numSkiers": rows[0][1]}, nil },
	},
	"/resorts/{resort}/seasons/{season}/days/{day}/lifts/{lift}/rides": {
		"SELECT count(*) FROM ski_rides WHERE resort_id = :resort AND season_id = :season AND day_id = :day AND lift_id = :lift",
		func(rows [][]any) (any, error) { return object{"rides": rows[0][0]}, nil },
	},
	"/resorts/{resort}/seasons/{season}/days/{day}/hours": {
		"SELECT (ride_time - 1) / 60, count(*) FROM ski_rides WHERE resort_id = :resort AND season_id = :season AND day_id = :day GROUP BY 1 ORDER BY 1",
		objects("hours", "hour", "rides"),
	},
	"/resorts": {
		"SELECT name, resort_id FROM ski_resorts ORDER BY resort_id",
		objects("resorts", "resortName", "resortID"),
	},
	// The query jumps from season to season in the primary key instead of visiting every ride. The first row is the resort.
	"/resorts/{resort}/seasons": {
		`WITH RECURSIVE ridden(season) AS (SELECT min(season_id) FROM ski_rides WHERE resort_id = :resort
		   UNION ALL SELECT (SELECT min(season_id) FROM ski_rides WHERE resort_id = :resort AND season_id > season) FROM ridden WHERE season IS NOT NULL)
		 SELECT '' FROM ski_resorts WHERE resort_id = :resort
		 UNION SELECT cast(season AS TEXT) FROM ridden WHERE season IS NOT NULL
		 UNION SELECT cast(season_id AS TEXT) FROM ski_seasons WHERE resort_id = :resort ORDER BY 1`,
		func(rows [][]any) (any, error) {
			if len(rows) == 0 || rows[0][0] != "" {
				return nil, failed(http.StatusNotFound, "no such resort")
			}
			return object{"seasons": first(rows[1:])}, nil
		},
	},
}

// objects returns an answer function whose result has the member list, with one object for each row.
func objects(list string, columns ...string) func([][]any) (any, error) {
	return func(rows [][]any) (any, error) {
		all := make([]object, len(rows))
		for i, row := range rows {
			all[i] = object{}
			for k, column := range columns {
				all[i][column] = row[k]
			}
		}
		return object{list: all}, nil
	}
}

// first returns the first column.
func first(rows [][]any) []any {
	values := make([]any, len(rows))
	for i, row := range rows {
		values[i] = row[0]
	}
	return values
}

// ask answers a query.
func (s *service) ask(q query) handler {
	return func(w http.ResponseWriter, c call) error { return s.read(w, c, db.SQL(q.sql, c.values), q.answer) }
}

// read sends a read to the database. The client may say which position it must see (X-Min-Seq, X-Cluster-Id), and at which
// level (?level=strong); it gets the position that the answer saw.
func (s *service) read(w http.ResponseWriter, c call, statement db.Statement, answer func([][]any) (any, error)) error {
	options := db.Options{Level: c.URL.Query().Get("level"), MinSeq: c.Header.Get("X-Min-Seq"), Cluster: c.Header.Get("X-Cluster-Id")}
	a, err := result(s.db.Query(c.Context(), options, statement))
	if err != nil {
		return err
	}
	body, err := answer(a.Results[0].Values)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, a, body)
}

// totalVertical answers the vertical of a skier at some resorts, by season. Each value is a parameter of its own: the read
// cache does not keep the answers of table functions such as json_each.
func (s *service) totalVertical(w http.ResponseWriter, c call) error {
	sql, values := "SELECT cast(season_id AS TEXT), sum(lift_id) * 10 FROM ski_rides WHERE skier_id = ?", []any{c.values["skier"]}
	asked := c.URL.Query()
	if n := len(asked["resort"]) + len(asked["season"]); len(asked["resort"]) == 0 || n > 1000 {
		return failed(http.StatusBadRequest, "resort is missing, or there are more than 1000 values")
	}
	for _, name := range []string{"resort", "season"} {
		for _, text := range asked[name] {
			n, err := s.ranges.read(name, text)
			if err != nil {
				return err
			}
			values = append(values, n)
		}
		if n := len(asked[name]); n > 0 {
			sql += " AND " + name + "_id IN (?" + strings.Repeat(", ?", n-1) + ")"
		}
	}
	return s.read(w, c, db.SQL(sql+" GROUP BY season_id ORDER BY season_id", values...), objects("resorts", "seasonID", "totalVert"))
}

// postSeason adds a season to a resort. Adding a season again changes nothing.
func (s *service) postSeason(w http.ResponseWriter, c call) error {
	var year string
	if err := web.Decode(c.Body, map[string]any{"year": &year}); err != nil {
		return err
	}
	season, err := s.ranges.read("season", year)
	if err != nil {
		return err
	}
	a, err := result(s.db.Execute(c.Context(), db.Options{}, db.SQL("INSERT INTO ski_seasons VALUES(?, ?) ON CONFLICT DO NOTHING", c.values["resort"], season)))
	if err != nil && strings.Contains(err.Error(), "FOREIGN KEY") {
		return failed(http.StatusNotFound, "no such resort")
	} else if err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, a, object{})
}

// operation is the database's answer about an asynchronous write.
type operation struct {
	ID      string            `json:"id"`
	Status  string            `json:"status"` // pending, applied or failed
	Seq     json.Number       `json:"seq,omitempty"`
	Code    string            `json:"code,omitempty"`
	Detail  string            `json:"detail,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"` // one for each statement
}

// write answers the state of an asynchronous write. The id ID.N is that of ride N of a batch, whose operation is ID.
func (s *service) write(w http.ResponseWriter, c call) error {
	id := c.PathValue("id")
	batch, ride, inBatch := strings.Cut(id, ".")
	var o operation
	if err := s.db.Operation(c.Context(), batch, &o); err != nil {
		return err
	}
	if inBatch {
		n, _ := strconv.Atoi(ride)
		if n < 0 || strconv.Itoa(n) != ride || (len(o.Results) > 0 && n >= len(o.Results)) {
			return failed(http.StatusNotFound, "no such write")
		}
		if o.ID = id; len(o.Results) > 0 { // Otherwise the state is that of all rides: pending, given up, or refused.
			o = ofRide(o, o.Results[n])
		}
	}
	return web.Answer(w, http.StatusOK, db.Answer{Seq: o.Seq.String()}, o)
}

// ofRide returns the state of the ride of a batch that has this result.
func ofRide(batch operation, result json.RawMessage) operation {
	var own db.Result
	_ = json.Unmarshal(result, &own) // The database sends an object.
	status := map[bool]string{true: "applied", false: "failed"}[own.Error == ""]
	return operation{ID: batch.ID, Status: status, Seq: batch.Seq, Detail: own.Error, Results: []json.RawMessage{result}}
}
