package gateway

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// clientBody is the body of a client's request. It records the body's own read error. When the transport fails, a broken
// body may be the cause, and the transport's error need not show that, since net/http cancels the context of a request
// whose body it cannot read.
//
// After the end of the body, Read keeps returning io.EOF. When the transport has sent a whole body, it reads once more
// to check for further data. By then the answer may already be on its way to the client and the server may have closed
// the body. The resulting error would make the transport close the connection and cut the answer off.
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

// withClientBody returns the request with its body wrapped in a clientBody, for bodyFailure.
func withClientBody(r *http.Request) *http.Request {
	body := &clientBody{ReadCloser: r.Body}
	r = r.WithContext(context.WithValue(r.Context(), clientBodyKey{}, body))
	r.Body = body
	return r
}

// bodyFailure returns the read error of a request's body, or nil.
func bodyFailure(ctx context.Context) *dbaas.Error {
	if body, ok := ctx.Value(clientBodyKey{}).(*clientBody); ok {
		return body.failure.Load()
	}
	return nil
}
