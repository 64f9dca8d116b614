package dbclient

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// positionLife is how long a position is asked for. Every orchestrator knows of a write after a second. A database that was
// restored to an older state under the same cluster id may never reach the position.
const positionLife = time.Minute

// position is a position of the log, as an answer named it.
type position struct {
	seq           dbaas.Seq
	text, cluster []string // values of headers; cluster is that of the position
	at            time.Time
}

// newest is the largest position that the client has seen. It is safe for concurrent use.
type newest struct{ seen atomic.Pointer[position] }

// note remembers the position of an answer if it is larger than the present one. A position of another cluster replaces the
// present one, because positions of different clusters cannot be compared.
func (n *newest) note(h http.Header, now time.Time) {
	text, cluster := h[httpapi.HeaderSeq], h[httpapi.HeaderCluster]
	if len(text) != 1 || len(cluster) != 1 {
		return
	}
	seq, err := strconv.ParseUint(text[0], 10, 64)
	if err != nil {
		return
	}
	for {
		before := n.seen.Load()
		if before != nil && before.cluster[0] == cluster[0] && before.seq >= dbaas.Seq(seq) {
			return
		}
		if n.seen.CompareAndSwap(before, &position{seq: dbaas.Seq(seq), text: text, cluster: cluster, at: now}) {
			return
		}
	}
}

// recent returns the position to ask for, nil if there is none.
func (n *newest) recent(now time.Time) *position {
	if p := n.seen.Load(); p != nil && now.Sub(p.at) < positionLife {
		return p
	}
	return nil
}

// forget drops p, unless it was replaced already.
func (n *newest) forget(p *position) { n.seen.CompareAndSwap(p, nil) }
