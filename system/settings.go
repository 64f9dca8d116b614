package system

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"rideshare/internal/rpc"
	"rideshare/internal/settings"
)

// otherPart is a part in another process whose settings can be asked for, and how to call it.
type otherPart struct {
	settings.Part

	at *rpc.Caller
}

// maxSettings bounds the answer of a worker, in bytes.
const maxSettings = 1 << 20

// settings asks persdb, the launchers and the workers for their settings, all at once. If they are in this process there is
// nothing to ask.
func (c *orchestratorParts) settings(ctx context.Context) []settings.Part {
	if c.others == nil {
		return []settings.Part{}
	}
	all := slices.Clone(c.others)
	instances, err := c.launcher.List(ctx)
	for _, in := range instances {
		if in.Running {
			at := &rpc.Caller{Peer: "worker", Base: in.Control, HTTP: &http.Client{Transport: c.control}, MaxAnswer: maxSettings}
			all = append(all, otherPart{settings.Part{Part: "worker", Instance: string(in.ID)}, at})
		}
	}
	parts := make([]settings.Part, len(all))
	var group sync.WaitGroup
	for i, other := range all {
		group.Go(func() { parts[i] = other.Ask(ctx, other.at) })
	}
	group.Wait()
	if err != nil {
		parts = append(parts, settings.Part{Part: "worker", Error: err.Error()})
	}
	return parts
}

// addressIn returns the address in a URL, without credentials: the host and port, or the path of a socket.
func addressIn(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Host + u.Path
}
