package testenv

import (
	"context"
	"net"
	"testing"
)

// SilentHosts makes every host name one whose lookup has no answer, until the end of the test: connections to it begin as those
// to a host that is off. A test that uses a synctest bubble calls it outside of the bubble.
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
