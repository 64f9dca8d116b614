// Package otlptest is a stand-in for a collector of traces: it receives spans by OTLP over HTTP, and keeps them.
package otlptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span. Ids are in hexadecimal digits.
type Span struct {
	Service, Name, Trace, ID, Parent string

	// Links are the ids of the spans that it links.
	Links  []string
	Failed bool
	// Texts and Ints are its attributes.
	Texts map[string]string
	Ints  map[string]int64
}

// Receiver collects spans. It is safe for concurrent use.
type Receiver struct {
	URL string

	mu    sync.Mutex // guards the fields below
	spans []Span
}

// Start starts a Receiver, which ends with the test.
func Start(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var in coltracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil || req.Method != http.MethodPost || req.URL.Path != "/v1/traces" {
			t.Errorf("%s %s is no export of traces: %v", req.Method, req.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.add(&in)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) add(in *coltracepb.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range in.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, newSpan(service, s))
			}
		}
	}
}

func newSpan(service string, s *tracepb.Span) Span {
	out := Span{
		Service: service, Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Texts: map[string]string{}, Ints: map[string]int64{},
	}
	for _, a := range s.GetAttributes() {
		out.Texts[a.GetKey()], out.Ints[a.GetKey()] = a.GetValue().GetStringValue(), a.GetValue().GetIntValue()
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

// Spans returns all spans so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Paths returns, for each span of a trace, its name after the names of the spans above it, such as "a > b", sorted. A
// span whose parent has not arrived begins with "?", unless that parent is root, the caller's own span.
func (r *Receiver) Paths(trace, root string) []string {
	byID := map[string]Span{}
	for _, s := range r.Spans() {
		if s.Trace == trace {
			byID[s.ID] = s
		}
	}
	var paths []string
	for _, s := range byID {
		path := s.Name
		for s.Parent != root {
			above, ok := byID[s.Parent]
			if !ok {
				path = "? > " + path
				break
			}
			s, path = above, above.Name+" > "+path
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
