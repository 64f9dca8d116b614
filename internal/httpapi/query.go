package httpapi

import (
	"net/url"

	"rideshare/internal/dbaas"
)

// Query returns the query parameters of a URL. It returns CodeInvalid for a malformed query string, where URL.Query would
// silently drop parameters.
func Query(u *url.URL) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "malformed query string")
	}
	return values, nil
}
