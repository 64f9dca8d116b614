package gateway

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// clientBody is the body of a client's request. It keeps what was wrong with it: where the transport fails the cause may be
// the body, and the transport's error need not say so, since net/http ends the context of a request whose body it cannot read.
//
// It stays at its end. When the transport has sent all of a body it looks whether there is more. By then
// the answer may be on its way to the client, and the server has closed the body: the error would
// make the transport close the connection, and so cut the answer off.
type clientBody struct {
	io.ReadCloser
	ended   bool
	failure atomic.Pointer[dbaas.Error]
}

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if b.ended = err == io.EOF; err != nil && !b.ended {
		b.failure.Store(httpapi.BodyError(err))
	}
	return n, err
}

type clientBodyKey struct{}

// withClientBody returns the request with its body as a clientBody, which bodyFailure finds.
func withClientBody(r *http.Request) *http.Request {
	body := &clientBody{ReadCloser: r.Body}
	r = r.WithContext(context.WithValue(r.Context(), clientBodyKey{}, body))
	r.Body = body
	return r
}

// bodyFailure returns what was wrong with the body of a request, nil if nothing.
func bodyFailure(ctx context.Context) *dbaas.Error {
	if body, ok := ctx.Value(clientBodyKey{}).(*clientBody); ok {
		return body.failure.Load()
	}
	return nil
}
