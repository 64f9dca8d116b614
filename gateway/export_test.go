package gateway

import "io"

// ClientBody is clientBody of a body.
func ClientBody(body io.ReadCloser) io.Reader { return &clientBody{ReadCloser: body} }
