package worker

import (
	"context"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
)

// aheadTimeout bounds the query for the other workers' positions.
const aheadTimeout = time.Second

// ahead reports whether another slave that can serve reads has registered a position beyond seq. It reports false if the
// members cannot be read.
func (r *registrar) ahead(ctx context.Context, seq dbaas.Seq) bool {
	r.mu.Lock()
	s, self := r.session, r.want.Worker
	r.mu.Unlock()
	if s == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, aheadTimeout)
	defer cancel()
	members, err := s.Members(ctx)
	return err == nil && slices.ContainsFunc(members, func(m coord.Member) bool {
		return m.Worker != self && m.Role == dbaas.RoleSlave && m.Applied > seq && !m.Leaving && !m.BusLost && !m.NoReplica
	})
}
