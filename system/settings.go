package system

import (
	"context"
	"net/http"
	"net/url"
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

// settings asks persdb, the launchers and the workers for their settings, all at once. The workers are known only after the
// launcher has answered. If the parts are in this process there is nothing to ask.
func (c *orchestratorParts) settings(ctx context.Context) []settings.Part {
	if c.others == nil {
		return []settings.Part{}
	}
	var workers []settings.Part
	var group sync.WaitGroup
	group.Go(func() { workers = c.workerSettings(ctx) })
	parts := ask(ctx, c.others)
	group.Wait()
	return append(parts, workers...)
}

// workerSettings returns the settings of the workers that run, or one Part with the reason why these are not known.
func (c *orchestratorParts) workerSettings(ctx context.Context) []settings.Part {
	listing, cancel := context.WithTimeout(ctx, settings.AskTime)
	defer cancel()
	instances, err := c.launcher.List(listing)
	var workers []otherPart
	for _, in := range instances {
		if in.Running {
			at := &rpc.Caller{Peer: "worker", Base: in.Control, HTTP: &http.Client{Transport: c.control}, MaxAnswer: maxSettings}
			workers = append(workers, otherPart{settings.Part{Part: "worker", Instance: string(in.ID)}, at})
		}
	}
	parts := ask(ctx, workers)
	if err != nil {
		parts = append(parts, settings.Part{Part: "worker", Error: err.Error()})
	}
	return parts
}

func ask(ctx context.Context, others []otherPart) []settings.Part {
	parts := make([]settings.Part, len(others))
	var group sync.WaitGroup
	for i, other := range others {
		group.Go(func() { parts[i] = other.Ask(ctx, other.at) })
	}
	group.Wait()
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
