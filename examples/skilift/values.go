package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// ranges are the lowest and the highest value of each name in a path, a query or a body.
type ranges map[string][2]int

// defaultRanges allow what the public clients of this API send, and more.
func defaultRanges() ranges {
	return ranges{
		"skier": {1, 100_000}, "resort": {1, 2000}, "season": {1000, 9999}, "day": {1, 366},
		"lift": {1, 60}, "time": {1, 1440}, "waitTime": {0, 1440},
	}
}

// Set changes the ranges that text names, such as resort=1..10,day=1..3.
func (v ranges) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, bounds, _ := strings.Cut(part, "=")
		low, high, _ := strings.Cut(bounds, "..")
		first, err := strconv.ParseUint(low, 10, 31)
		last, err2 := strconv.ParseUint(high, 10, 31)
		if _, known := v[name]; !known || err != nil || err2 != nil || last < first || (name == "resort" && last > 100_000) {
			return fmt.Errorf("%q is not NAME=LOW..HIGH", part)
		}
		v[name] = [2]int{int(first), int(last)}
	}
	return nil
}

// read returns a value, which has only digits and is in range.
func (v ranges) read(name, text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if value := int(n); err == nil && value >= v[name][0] && value <= v[name][1] {
		return value, nil
	}
	return 0, failed(http.StatusBadRequest, "%s is a number from %d to %d", name, v[name][0], v[name][1])
}

// failed returns an error that is answered with status. It has the form of a refusal by the database.
func failed(status int, format string, args ...any) error {
	return &db.Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

type object = map[string]any

// sendError answers with an error. A refusal of the database is passed on: after its 429 and 503 the request was certainly
// not done, after its 504 the outcome is unknown.
func sendError(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*db.Refusal](err)
	if !ok || r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		r = &db.Refusal{Status: http.StatusInternalServerError, Message: "the service cannot use the database"}
	}
	if r.Reason != "" {
		w.Header().Set("X-Reason", r.Reason)
	}
	web.Fail(w, r.Status, r.RetryAfter, object{"message": r.Message})
}
