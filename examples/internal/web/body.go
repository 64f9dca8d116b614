package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"rideshare/examples/internal/db"
)

// Decode reads a body, which must be one JSON object. It decodes each member into the pointer of that name; a member that is
// missing leaves its value as it is. An empty body is an empty object. The error is a *db.Refusal.
func Decode(body io.Reader, into map[string]any) error {
	d, seen := json.NewDecoder(body), map[string]bool{}
	start, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	for err == nil && start == json.Delim('{') && d.More() {
		var value json.RawMessage
		token, failure := d.Token()
		if err = cmp.Or(failure, d.Decode(&value)); err != nil {
			break
		}
		name, _ := token.(string)
		if into[name] == nil || seen[name] {
			return wrong(http.StatusBadRequest, "%q is unknown or there twice", name)
		}
		if string(value) == "null" || json.Unmarshal(value, into[name]) != nil {
			return wrong(http.StatusBadRequest, "%q has a wrong value", name)
		}
		seen[name] = true
	}
	_, closed := d.Token()
	_, end := d.Token()
	switch {
	case errors.As(errors.Join(err, closed, end), new(*http.MaxBytesError)):
		return wrong(http.StatusRequestEntityTooLarge, "the body is too long")
	case err != nil, closed != nil, start != json.Delim('{'), !errors.Is(end, io.EOF):
		return wrong(http.StatusBadRequest, "the body is not one JSON object")
	}
	return nil
}

func wrong(status int, format string, args ...any) error {
	return &db.Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}
