package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// respondAsync finds this preference among others, in the form that the database takes too.
var respondAsync = regexp.MustCompile(`(?i)(^|,)\s*respond-async\s*([,;]|$)`)

// postRide stores one ride.
func (s *service) postRide(w http.ResponseWriter, c call) error {
	minute, lift, waitTime := -1, -1, 0
	err := web.Decode(c.Body, map[string]any{"time": &minute, "liftID": &lift, "waitTime": &waitTime})
	if err != nil {
		return err
	}
	for name, value := range map[string]int{"time": minute, "lift": lift, "waitTime": waitTime} {
		if c.values[name], err = s.ranges.read(name, strconv.Itoa(value)); err != nil {
			return err
		}
	}
	async := respondAsync.MatchString(strings.Join(c.Header.Values("Prefer"), ","))
	a, err := s.store(c, async || s.async)
	if err != nil {
		return err
	}
	if async {
		w.Header().Set("Location", "/writes/"+a.Operation)
		return web.Answer(w, http.StatusAccepted, a, object{"id": a.Operation})
	}
	return web.Answer(w, http.StatusCreated, a, object{})
}

// store stores a ride, alone under its key or with others in a batch. The id of the row is made once, so that every retry
// of the request to the database has the same statement.
func (s *service) store(c call, async bool) (db.Answer, error) {
	v := c.values
	insert := func(id int64) db.Statement {
		return db.SQL("INSERT INTO ski_rides VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			v["resort"], v["season"], v["day"], v["skier"], id, v["lift"], v["time"], v["waitTime"])
	}
	key := c.Header.Get("Idempotency-Key")
	if key == "" {
		return s.batchers[async].submit(insert(rand.Int64N(1 << 62))) //nolint:gosec // An id, not a secret.
	}
	if len(key) > 255 {
		return db.Answer{}, failed(http.StatusBadRequest, "Idempotency-Key has more than 255 characters")
	}
	// A key belongs to its path. The same key with another body is another statement, which the database refuses with 422.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%d/%d/%s", v["resort"], v["season"], v["day"], v["skier"], key))
	id := int64(binary.BigEndian.Uint64(sum[:]) >> 2)
	return result(s.insist(hex.EncodeToString(sum[:]), async, insert(id)))
}

// result turns the error of a statement into an error of the call.
func result(a db.Answer, err error) (db.Answer, error) {
	if err == nil && a.Err() != nil {
		err = failed(http.StatusInternalServerError, "the database refused the statement: %v", a.Err())
	}
	return a, err
}

// insist stores rides under one key. While the outcome is unknown it retries, until the deadline, also if the client is gone.
func (s *service) insist(key string, async bool, statements ...db.Statement) (db.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.deadline)
	defer cancel()
	return s.db.Insist(ctx, db.Options{Key: key, Async: async}, statements...)
}
