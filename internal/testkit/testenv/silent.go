package testenv

import (
	"context"
	"net"
	"testing"
)

// SilentHosts makes lookups of all host names hang until the end of the test: a connection then begins as one to a host that is
// switched off. A test that uses a synctest bubble calls it outside of the bubble.
func SilentHosts(t *testing.T) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	// The first lookup of a process makes channels, which must not belong to a bubble.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = net.DefaultResolver.LookupHost(ctx, "silent.example") // it fails, as ctx has ended.
}
