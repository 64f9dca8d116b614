package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The headers of a message on the bus. Parts that do not know them ignore them.
const (
	headerParent = "traceparent"
	// headerRequests has the traceparent of each request in the message, in order and separated by commas; empty for a
	// request that is not recorded.
	headerRequests = "rideshare-requests-traceparent"
)

// Headers returns the headers of a message whose span is s, with the given requests. They are nil if s is not recorded.
func (s Span) Headers(requests []Link) map[string]string {
	if s.span == nil {
		return nil
	}
	all := make([]string, len(requests))
	for i := range requests {
		all[i] = requests[i].encode()
	}
	return map[string]string{headerParent: s.Link().encode(), headerRequests: strings.Join(all, ",")}
}

func (l Link) encode() string {
	if !l.at.IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	header.Inject(l.Into(context.Background()), carrier)
	return carrier[headerParent]
}

func decode(traceparent string) Link {
	ctx := header.Extract(context.Background(), propagation.MapCarrier{headerParent: traceparent})
	return Link{trace.SpanContextFromContext(ctx)}
}

// Message is what the headers of a received message say. The zero value has no span.
type Message struct {
	span     Link
	requests []Link
}

// Received reads the headers of a message with n requests. What is malformed counts as not recorded.
func Received(headers map[string]string, n int) Message {
	if !On() || headers[headerParent] == "" {
		return Message{}
	}
	m := Message{span: decode(headers[headerParent])}
	if texts := strings.SplitN(headers[headerRequests], ",", n+1); len(texts) == n {
		m.requests = make([]Link, n)
		for i, text := range texts {
			m.requests[i] = decode(text)
		}
	}
	return m
}

// Request returns the span of request i, as it was sent.
func (m Message) Request(i int) Link {
	if i >= len(m.requests) {
		return Link{}
	}
	return m.requests[i]
}

// Parent returns the parent of the spans that the receiver makes for request i. It is the message's span if the message
// and the request are in the same trace, and otherwise the request's span.
func (m Message) Parent(i int) Link {
	request := m.Request(i)
	if request.at.TraceID() == m.span.at.TraceID() {
		return m.span
	}
	return request
}

// Context returns ctx with the span that Parent returns for request i. If the request is not recorded, it returns ctx itself.
func (m Message) Context(ctx context.Context, i int) context.Context { return m.Parent(i).Into(ctx) }
