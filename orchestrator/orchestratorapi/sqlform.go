package orchestratorapi

import (
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/sqlbody"
)

// query answers GET and POST /db/query: reads only.
func (a *API) query(c echo.Context) error {
	start := a.cfg.Now()
	o, err := a.parseOptions(c)
	if err != nil {
		return err
	}
	statements, err := a.queryStatements(c, &o)
	if err != nil {
		return err
	}
	o.asQuery = true
	return a.read(c, &o, statements, start)
}

func (a *API) read(c echo.Context, o *options, statements []dbaas.Statement, start time.Time) error {
	read, err := a.newRead(c, statements, o.readTimeout(a.cfg.CallTimeout))
	if err != nil {
		return err
	}
	o.apply(&read)
	if len(statements) == 0 {
		return a.respond(c, o, answer{body: a.tail([]byte(`{"results":[]`), o, start, 0)})
	}
	result, err := a.dispatch(c, read)
	if err != nil {
		return err
	}
	if o.transaction && !o.asQuery {
		result.Body = untilError(result.Body)
	}
	return a.respond(c, o, answer{`{"results":[`, result.Body, a.tail([]byte{']'}, o, start, result.Seq)})
}

// queryStatements returns the statements of a read: q of a GET, the body of a POST.
func (a *API) queryStatements(c echo.Context, o *options) ([]dbaas.Statement, error) {
	if c.Request().Method == http.MethodPost {
		return a.bodyStatements(c, o)
	}
	if o.q == "" {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "q holds the statement and is missing or empty")
	}
	return []dbaas.Statement{{SQL: o.q}}, nil
}

// bodyStatements reads and parses the body.
func (a *API) bodyStatements(c echo.Context, o *options) ([]dbaas.Statement, error) {
	body, err := readBody(c, o)
	if err != nil {
		return nil, err
	}
	return a.parseBody(c, body)
}

func readBody(c echo.Context, o *options) ([]byte, error) {
	if o.hasQ {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "q is for GET: send the statements in the body")
	}
	return httpapi.ReadBody(c.Response(), c.Request())
}

// parseBody returns the statements of a body. It is parsed as JSON whatever its Content-Type, except that a
// text/plain body that is not JSON is one plain statement. At /db/request only JSON counts, as in rqlite.
func (a *API) parseBody(c echo.Context, body []byte) ([]dbaas.Statement, error) {
	// A missing or malformed Content-Type is treated as JSON.
	kind, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if kind == echo.MIMETextPlain && c.Path() != requestPath {
		if st, ok := sqlbody.ParseText(body); ok {
			return []dbaas.Statement{st}, nil
		}
	}
	plain, err := plainText(c.Request())
	if err != nil {
		return nil, err
	}
	limits := sqlbody.Limits{
		PlainText:  plain,
		Statements: a.cfg.MaxStatements,
		Room:       func(bytes int64) error { return httpapi.Hold(c.Request().Context(), bytes) },
	}
	return limits.ParseSQL(body)
}

// plainText reports whether the request says that no string is a BLOB.
func plainText(r *http.Request) (bool, error) {
	switch text := r.Header.Get(httpapi.HeaderPlainText); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, dbaas.Errorf(dbaas.CodeInvalid, "%s is true or false, not %q", httpapi.HeaderPlainText, text)
	}
}

// execute answers POST /db/execute: writes, at the master.
func (a *API) execute(c echo.Context) error {
	start := a.cfg.Now()
	o, err := a.parseOptions(c)
	if err != nil {
		return err
	}
	body, err := readBody(c, &o)
	if err != nil {
		return err
	}
	if o.queue && o.wait && len(body) == 0 {
		return a.barrier(c, &o, start)
	}
	statements, err := a.parseBody(c, body)
	if err != nil {
		return err
	}
	return a.sqlWrite(c, &o, statements, start)
}

// request answers POST /db/request: reads and writes together, in order, at the master. A
// request with only reads is served like /db/query, and so is any request of a caller that may only
// read: a write in it is refused as there.
func (a *API) request(c echo.Context) error {
	start := a.cfg.Now()
	o, err := a.parseOptions(c)
	if err != nil {
		return err
	}
	o.queue = false // a write here has its result in the answer
	statements, err := a.bodyStatements(c, &o)
	if err != nil {
		return err
	}
	if sqlbody.OnlyReads(statements) || httpapi.RoleOf(c.Request().Context()) < httpapi.Write {
		return a.read(c, &o, statements, start)
	}
	return a.sqlWrite(c, &o, statements, start)
}

func (a *API) sqlWrite(c echo.Context, o *options, statements []dbaas.Statement, start time.Time) error {
	op, keyed, err := a.newOperation(c, statements, o.transaction)
	if err != nil {
		return err
	}
	op.StatementTime, op.QualifyColumns = o.statementTime, o.qualify
	if o.timeout > 0 {
		op.Deadline = start.Add(o.timeout)
	}
	if len(statements) == 0 {
		return a.nothing(c, o, start)
	}
	switch {
	case o.queue && !o.wait:
		return a.enqueued(c, o, op, keyed, start)
	case wantsAsync(c):
		return a.accept(c, op, keyed)
	}
	result, err := a.run(c, op, keyed)
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 64+64*len(result.Statements)), `{"results":[`...)
	o.took = a.cfg.Now().Sub(start)
	b = append(appendResults(b, result.Statements, o.renderOptions), ']')
	if o.queue {
		b = strconv.AppendInt(append(b, `,"sequence_number":`...), a.queued.next(), 10)
	}
	b = strconv.AppendUint(append(b, `,"seq":`...), uint64(result.Seq), 10)
	httpapi.Charge(c.Request().Context(), int64(cap(b)))
	return a.respond(c, o, answer{body: a.tail(b, o, start, result.Seq)})
}

// nothing answers a write without a statement.
func (a *API) nothing(c echo.Context, o *options, start time.Time) error {
	b := []byte(`{"results":[]`)
	if o.queue {
		b = strconv.AppendInt(append(b, `,"sequence_number":`...), a.queued.next(), 10)
	}
	return a.respond(c, o, answer{body: a.tail(b, o, start, 0)})
}

// enqueued hands op over without waiting for its result and answers 200, as rqlite's clients require.
func (a *API) enqueued(c echo.Context, o *options, op dbaas.Operation, keyed bool, start time.Time) error {
	number, err := a.enqueue(c, op, keyed)
	if err != nil {
		return err
	}
	id := op.ID.String()
	c.Response().Header().Set(httpapi.HeaderOpID, id)
	b := strconv.AppendInt([]byte(`{"results":[],"sequence_number":`), number, 10)
	b = append(append(append(b, `,"op_id":"`...), id...), '"')
	return a.respond(c, o, answer{body: a.tail(b, o, start, 0)})
}

// tail appends the fields that the options ask for and the closing brace.
func (a *API) tail(b []byte, o *options, start time.Time, seq dbaas.Seq) []byte {
	if o.raftIndex && seq > 0 {
		b = strconv.AppendUint(append(b, `,"raft_index":`...), uint64(seq), 10)
	}
	if o.timings {
		b = appendSeconds(append(b, `,"time":`...), a.cfg.Now().Sub(start))
	}
	return append(b, '}')
}
