package orchestratorapi

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// options are the query parameters of the SQL form.
type options struct {
	renderOptions
	pretty        bool
	transaction   bool
	queue, wait   bool
	raftIndex     bool
	level         string
	freshness     time.Duration
	timeout       time.Duration // zero if not given
	linearTimeout time.Duration // linearizable_timeout; zero if not given
	statementTime time.Duration // db_timeout; zero if not given
	qualify       bool          // qualify_columns
	asQuery       bool          // the request came to /db/query
	q             string
	hasQ          bool
}

// parseOptions reads the query parameters by rqlite's rules: a flag is on if its name is
// present, and an option has no effect on a route where it has no meaning. An unsupported
// option is refused, never ignored. An option that asks for something that always holds here
// is accepted. Errors are CodeInvalid.
func (a *API) parseOptions(c echo.Context) (options, error) {
	o := options{level: "weak"}
	if c.Request().URL.RawQuery == "" {
		return o, nil
	}
	values, err := httpapi.Query(c.Request().URL)
	if err != nil {
		return o, err
	}
	for name, given := range values {
		if len(given) > 1 {
			return o, dbaas.Errorf(dbaas.CodeInvalid, "option %q is given twice", name)
		}
		if err = o.set(name, given[0]); err != nil {
			return o, err
		}
	}
	if most := a.cfg.MaxTimeout; values.Has("timeout") && (o.timeout == 0 || o.timeout > most) {
		return o, dbaas.Errorf(dbaas.CodeInvalid, "timeout is more than 0 and at most %v", most)
	}
	return o, nil
}

func (o *options) set(name, value string) (err error) {
	if flag := o.flag(name); flag != nil {
		*flag = true
		return checkFlag(name, value)
	}
	switch name {
	case "level":
		return o.setLevel(value)
	case "freshness":
		o.freshness, err = duration(name, value)
		return err
	case "timeout":
		o.timeout, err = duration(name, value)
		return err
	case "linearizable_timeout":
		o.linearTimeout, err = duration(name, value)
		return err
	case "db_timeout":
		o.statementTime, err = duration(name, value)
		return err
	case "retries":
		if _, err = strconv.Atoi(value); err != nil {
			return dbaas.Errorf(dbaas.CodeInvalid, "retries is an integer")
		}
		return nil
	case "q":
		o.q, o.hasQ = value, true
		return nil
	case "redirect", "noparse", "norwrandom", "norwtime", "noleader", "freshness_strict":
		// There is no other node to redirect to, SQL is never rewritten, and a fresh answer is always strict.
		return nil
	default:
		return dbaas.Errorf(dbaas.CodeInvalid, "option %q is not supported", name)
	}
}

func (o *options) flag(name string) *bool {
	switch name {
	case "pretty":
		return &o.pretty
	case "timings":
		return &o.timings
	case "associative":
		return &o.associative
	case "blob_array":
		return &o.blobArray
	case "transaction", "atomic": // atomic is what rqlite-js sends too
		return &o.transaction
	case "queue":
		return &o.queue
	case "wait":
		return &o.wait
	case "raft_index":
		return &o.raftIndex
	case "qualify_columns":
		return &o.qualify
	default:
		return nil
	}
}

// checkFlag refuses transaction, atomic and queue with a value that means no, such as false: by rqlite's rules the flag would be
// on. Other flags accept any value, since being on by mistake does no harm there.
func checkFlag(name, value string) error {
	if name != "transaction" && name != "atomic" && name != "queue" {
		return nil
	}
	switch strings.ToLower(value) {
	case "false", "0", "no", "off":
		return dbaas.Errorf(dbaas.CodeInvalid, "option %q is on whatever its value is: leave it out", name)
	default:
		return nil
	}
}

func (o *options) setLevel(value string) error {
	switch value = strings.ToLower(value); value {
	case "none", "weak", "auto", "linearizable", "strong":
		o.level = value
		return nil
	default:
		return dbaas.Errorf(dbaas.CodeInvalid, "level is none, weak, auto, linearizable or strong")
	}
}

func duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "%s is a duration such as 500ms or 1s", name)
	}
	return d, nil
}

// apply sets r's read level and format.
//
// With level none rqlite lets a client bound how long the node may have been cut off
// (freshness). Here only the master can promise that, after it has asked persdb; its answer
// is then within any bound. As in rqlite, freshness is ignored with other levels or when it
// is zero.
func (o *options) apply(r *dbaas.Read) {
	switch {
	case o.level == "linearizable" || o.level == "strong":
		r.Linearizable = true
	case o.level == "none" && o.freshness > 0:
		r.Linearizable = true
	case o.level != "none":
		r.Recent = true
	}
	r.Format = dbaas.FormatArrays
	if o.associative {
		r.Format = dbaas.FormatAssociative
	}
	r.Timings, r.BlobArray = o.timings, o.blobArray
	r.StatementTime, r.QualifyColumns, r.AsQuery = o.statementTime, o.qualify, o.asQuery
	if o.freshness > 0 {
		r.Cache = dbaas.CacheNone
	}
}

// readTimeout returns how long a read may take: the client's timeout, or fallback if the client sets none.
func (o *options) readTimeout(fallback time.Duration) time.Duration {
	timeout := cmp.Or(o.timeout, fallback)
	if o.linearTimeout > 0 && (o.level == "linearizable" || o.level == "strong") {
		timeout = min(timeout, o.linearTimeout)
	}
	return timeout
}
