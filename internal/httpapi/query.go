package httpapi

import (
	"net/url"

	"rideshare/internal/dbaas"
)

// Query returns the options of a URL. Unlike URL.Query it leaves out none that it cannot read: it returns CodeInvalid then.
func Query(u *url.URL) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "malformed query string")
	}
	return values, nil
}
