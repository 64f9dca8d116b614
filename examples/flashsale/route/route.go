// Package route is the router in front of several instances of flashsale. It sends the requests of the same goods to the same
// instance, so that few instances lease their units.
package route

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/examples/internal/web"
)

// answerLimit is how long the router waits for an instance's answer: longer than an instance needs for a request.
const answerLimit = 20 * time.Second

// dialLimit is how long the router tries to connect. A host that is switched off does not refuse a connection: without this
// limit the router would try the next instance only after minutes.
const dialLimit = time.Second

// maxLoad is how many requests an instance may have in flight, as a multiple of the average.
const maxLoad = 1.25

// errNotSent is the error of a request that no instance has got.
var errNotSent = errors.New("no instance can be reached")

// router sends each request to one of several instances.
type router struct {
	instances []string // HOST:PORT
	transport http.RoundTripper
	mu        sync.Mutex     // guards what follows
	load      map[string]int // requests in flight, by instance
	all       int            // the sum of load
}

// Main is the command `flashsale route`.
func Main(ctx context.Context, args []string, messages io.Writer) error {
	r := &router{load: map[string]int{}, transport: newTransport()}
	flags := flag.NewFlagSet("flashsale route", flag.ContinueOnError)
	flags.SetOutput(messages)
	listen := flags.String("listen", "127.0.0.1:8087", "`address` of the router")
	instances := flags.String("instances", "http://127.0.0.1:8088", "`URLs` of the instances, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for text := range strings.SplitSeq(*instances, ",") {
		host, is := strings.CutPrefix(strings.TrimSuffix(text, "/"), "http://")
		if !is || flags.NArg() > 0 {
			return fmt.Errorf("got instance %q and arguments %q, want --instances http://HOST:PORT, with commas between them", text, flags.Args())
		}
		r.instances = append(r.instances, host)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	return web.Serve(ctx, listener, r.handler(), answerLimit)
}

func newTransport() *http.Transport {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, MaxIdleConnsPerHost: 512, ResponseHeaderTimeout: answerLimit}
}

func (r *router) handler() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.Out.URL.Scheme = "http" },
		Transport: r,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusGatewayTimeout // An instance may have done the request.
			if errors.Is(err, errNotSent) {
				status = http.StatusServiceUnavailable
			}
			web.Fail(w, status, 0, map[string]string{"message": err.Error()})
		},
	}
}

// RoundTrip sends a request to the first instance in its order that has room. An instance that cannot be reached certainly
// does not have the request, so the next instance gets it.
func (r *router) RoundTrip(request *http.Request) (*http.Response, error) {
	parts := strings.SplitN(request.URL.Path, "/", 4) // "", "goods", the id, and the rest
	order := preference(strings.Join(parts[:min(3, len(parts))], "/"), r.instances)
	// The transport sends a request with a key again when its connection breaks, so a request that was sent may end with
	// an instance that cannot be reached. The key makes it safe at the next instance.
	var wrote atomic.Bool
	ctx := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	for {
		instance := r.begin(order)
		out := request.Clone(ctx)
		out.URL.Host = instance
		if out.Body != nil {
			out.Body = io.NopCloser(out.Body) // The next instance may need it.
		}
		answer, err := r.transport.RoundTrip(out)
		r.end(instance)
		if err == nil {
			return answer, nil
		}
		dial, is := errors.AsType[*net.OpError](err)
		order = slices.DeleteFunc(order, func(one string) bool { return one == instance })
		switch last := len(order) == 0; {
		case !is || dial.Op != "dial" || (last && wrote.Load()):
			return nil, fmt.Errorf("no answer from the instance: %w", err)
		case last:
			return nil, errNotSent
		}
	}
}

// begin adds a request to the load of the first instance that has room, and returns the instance.
func (r *router) begin(order []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
	room := maxLoad * float64(r.all) / float64(len(r.instances))
	i := slices.IndexFunc(order, func(instance string) bool { return float64(r.load[instance]) < room })
	instance := order[max(0, i)] // All may be full when instances that have room cannot be reached.
	r.load[instance]++
	return instance
}

// end takes an answered request off the load of its instance.
func (r *router) end(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.load[instance]--
	r.all--
}

// preference returns the instances in the order of the hashes of instance and key (rendezvous hashing). When an instance is
// removed, only its keys move.
func preference(key string, instances []string) []string {
	return slices.SortedFunc(slices.Values(instances), func(a, b string) int {
		x, y := sha256.Sum256([]byte(a+"\n"+key)), sha256.Sum256([]byte(b+"\n"+key))
		return cmp.Compare(string(x[:]), string(y[:]))
	})
}
