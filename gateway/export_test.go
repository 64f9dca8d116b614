package gateway

import "io"

// EndedBody is endedBody of a body.
func EndedBody(body io.Reader) io.Reader { return &endedBody{body: body} }
