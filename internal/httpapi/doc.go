// Package httpapi is the HTTP layer that all services share: routing rules, error bodies, reading bodies, request ids,
// body limits and the listener. It handles the start and the end of every request, and only this package maps a
// dbaas.Code to a status.
//
// An API answers 404 for an unknown path (a trailing slash makes a path unknown), and 405 with Allow for a known path
// with another method. It never redirects. Handlers return errors; the API writes the body.
package httpapi
