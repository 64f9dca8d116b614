package changes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/sqltext"
)

const ndjson = "application/x-ndjson"

// request is what a consumer asks for.
type request struct {
	cluster dbaas.ClusterID // zero if the consumer names none
	after   dbaas.Seq
	now     bool     // without a position: begin at the head
	tables  []string // in lower case; nil for all
	lines   bool     // NDJSON instead of server-sent events
}

// parse reads a request. Errors are CodeInvalid.
func parse(r *http.Request) (request, error) {
	values, err := httpapi.Query(r.URL)
	if err != nil {
		return request{}, err
	}
	out := request{now: true, lines: httpapi.Lists(r.Header, "Accept", ndjson)}
	position := r.Header.Get("Last-Event-ID")
	for name, given := range values {
		switch {
		case len(given) > 1:
			return out, dbaas.Errorf(dbaas.CodeInvalid, "option %q is given twice", name)
		case name == "after":
			out.now = false
			if position == "" {
				position = given[0]
			}
		case name == "tables":
			out.tables = strings.Split(sqltext.Fold(given[0]), ",")
			if slices.Contains(out.tables, "") {
				return out, dbaas.Errorf(dbaas.CodeInvalid, "tables is a list of names such as users,rides")
			}
		default:
			return out, dbaas.Errorf(dbaas.CodeInvalid, "option %q is not supported", name)
		}
	}
	if position == "" && out.now {
		return out, nil
	}
	out.now = false
	return out, out.parsePosition(position)
}

// parsePosition reads SEQ or CLUSTER-ID:SEQ.
func (q *request) parsePosition(text string) error {
	cluster, seq, found := strings.Cut(text, ":")
	if !found {
		seq = text
	}
	n, err := strconv.ParseUint(seq, 10, 63)
	if found {
		err = errors.Join(err, q.cluster.UnmarshalText([]byte(cluster)))
	}
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "a position is SEQ or CLUSTER-ID:SEQ, as in the id of an event")
	}
	q.after = dbaas.Seq(n)
	return nil
}

// goneError is the error of a stream that cannot go on from its position. page has the bounds within which the log can
// be read.
type goneError struct {
	reason string
	page   dbaas.Page // only its bounds, First and Head
}

func (e *goneError) Error() string { return e.reason }

// goneProblem is the body of a 410.
type goneProblem struct {
	httpapi.Problem

	Oldest  dbaas.Seq       `json:"oldest_seq"`
	Head    dbaas.Seq       `json:"head_seq"`
	Cluster dbaas.ClusterID `json:"cluster_id"`
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	gone, ok := errors.AsType[*goneError](err)
	if !ok {
		httpapi.WriteError(w, r, false, err)
		return
	}
	p := goneProblem{Problem: httpapi.NewProblem(dbaas.CodeGone), Oldest: gone.page.First, Head: gone.page.Head.Seq, Cluster: gone.page.Head.Cluster}
	p.Detail = gone.reason + ": take GET /db/backup, and read on after its X-Seq"
	p.Instance = httpapi.RequestID(r.Context())
	body, _ := json.Marshal(p) // strings and numbers
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// ServeHTTP streams the commits after a position. See docs/API.md.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := parse(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		refuse(w, r, dbaas.Errorf(dbaas.CodeUnavailable, "%d streams of changes are open, and no more are allowed: close one, or try again later", f.cfg.Streams))
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(f.ctx, func() { cancel(context.Cause(f.ctx)) })()
	defer f.window.opened()()
	s, err := f.open(ctx, q)
	if err != nil {
		refuse(w, r, err)
		return
	}
	contentType := "text/event-stream"
	if q.lines {
		contentType = ndjson
	}
	w.Header().Set(httpapi.HeaderCluster, s.cluster.String())
	w.Header().Set(httpapi.HeaderSeq, strconv.FormatUint(uint64(s.at), 10))
	s.out = httpapi.NewStream(w, contentType, f.cfg.Stall)
	if r.Method == http.MethodHead {
		return
	}
	f.ended(s, s.run(ctx))
	if s.out.Torn() {
		panic(http.ErrAbortHandler) // otherwise the consumer would take a partial event for a complete one
	}
}
