package scene

import "sync/atomic"

// Instances are the base URLs of the instances of a service, to which requests go in turn.
type Instances struct {
	urls atomic.Pointer[[]string]
	turn atomic.Int64
}

// Use makes further requests go to other instances.
func (i *Instances) Use(urls ...string) { i.urls.Store(&urls) }

// Next returns the instance for one request.
func (i *Instances) Next() string {
	urls := *i.urls.Load()
	return urls[int(i.turn.Add(1))%len(urls)]
}
