// Package httpapi is the HTTP side that all services share: routing rules, error
// bodies, strict JSON, request ids, body limits and the listener. It sits first
// and last on the path of every request, and it alone knows which status
// belongs to which dbaas.Code.
//
// An API answers 404 for an unknown path (a trailing slash makes one), 405 with
// Allow for another method of a known one, never a redirect. Handlers return
// errors; the API writes the body.
package httpapi
