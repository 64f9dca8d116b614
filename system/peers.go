package system

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"rideshare/internal/tlsfiles"
)

// leaderIdle is how long a connection to the leading orchestrator may be idle. A standby asks several times a second.
const leaderIdle = 10 * time.Second

// newLeaderProbe returns a function that asks another orchestrator for a sign of life, and its end. Any answer counts,
// since only a running process can answer.
func newLeaderProbe(tls *tlsfiles.Files) (probe func(ctx context.Context, url string) error, end func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: leaderIdle}
	tls.Trust(transport)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/livez", nil)
		if err != nil {
			return fmt.Errorf("ask the leader: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("ask the leader: %w", err)
		}
		return resp.Body.Close()
	}, transport.CloseIdleConnections
}
