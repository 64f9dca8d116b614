package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/statement"
)

// query answers GET and POST /db/query: reads only.
func (a *API) query(c echo.Context) error {
	start, seen := a.cfg.Now(), a.cfg.Dispatcher.SeenSeq()
	o, err := parseOptions(c)
	if err != nil {
		return err
	}
	if o.queue || o.wait {
		return dbaas.Errorf(dbaas.CodeInvalid, "queue and wait are for /db/execute")
	}
	statements, err := queryStatements(c, &o)
	if err != nil {
		return err
	}
	return a.read(c, &o, statements, readStart{at: start, seen: seen})
}

// readStart is when a read came, and what had been acknowledged by then.
type readStart struct {
	at   time.Time
	seen dbaas.Seq
}

func (a *API) read(c echo.Context, o *options, statements []dbaas.Statement, start readStart) error {
	read, err := a.newRead(c, statements, o.timeout)
	if err != nil {
		return err
	}
	o.apply(&read, start.seen)
	a.cfg.OnRead()
	result, err := a.cfg.Dispatcher.Read(c.Request().Context(), read)
	if err != nil {
		return err
	}
	httpapi.SetSeq(c, result.Seq)
	b := make([]byte, 0, len(result.Body)+64)
	b = append(b, `{"results":[`...)
	b = append(b, result.Body...)
	b = append(b, ']')
	return a.respond(c, o, a.tail(b, o, start.at, result.Seq))
}

// queryStatements returns what a read asks for: q of a GET, the body of a POST.
func queryStatements(c echo.Context, o *options) ([]dbaas.Statement, error) {
	if c.Request().Method == http.MethodPost {
		return bodyStatements(c, o)
	}
	if o.q == "" {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "q holds the statement and is missing or empty")
	}
	return []dbaas.Statement{{SQL: o.q}}, nil
}

// bodyStatements reads the body: JSON whatever its type says, but one plain
// statement where it says text/plain and is none.
func bodyStatements(c echo.Context, o *options) ([]dbaas.Statement, error) {
	if o.hasQ {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "q is for GET: send the statements in the body")
	}
	body, err := httpapi.ReadBody(c)
	if err != nil {
		return nil, err
	}
	// A malformed type is none, and none is JSON.
	kind, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if kind == echo.MIMETextPlain {
		if st, ok := statement.ParseText(body); ok {
			return []dbaas.Statement{st}, nil
		}
	}
	return statement.ParseSQL(body)
}

// execute answers POST /db/execute: writes, at the master.
func (a *API) execute(c echo.Context) error {
	start := a.cfg.Now()
	o, err := parseOptions(c)
	if err != nil {
		return err
	}
	statements, err := bodyStatements(c, &o)
	if err != nil {
		return err
	}
	return a.sqlWrite(c, &o, statements, start)
}

// request answers POST /db/request: reads and writes together, in order, at the
// master. A request that only reads is served as /db/query is.
func (a *API) request(c echo.Context) error {
	start, seen := a.cfg.Now(), a.cfg.Dispatcher.SeenSeq()
	o, err := parseOptions(c)
	if err != nil {
		return err
	}
	if o.queue || o.wait {
		return dbaas.Errorf(dbaas.CodeInvalid, "queue and wait are for /db/execute")
	}
	statements, err := bodyStatements(c, &o)
	if err != nil {
		return err
	}
	if statement.OnlySelects(statements) {
		return a.read(c, &o, statements, readStart{at: start, seen: seen})
	}
	return a.sqlWrite(c, &o, statements, start)
}

func (a *API) sqlWrite(c echo.Context, o *options, statements []dbaas.Statement, start time.Time) error {
	op, keyed, err := a.newOperation(c, statements, o.transaction)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		op.Deadline = start.Add(o.timeout)
	}
	switch {
	case o.queue && !o.wait:
		return a.queued(c, o, op, keyed)
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
		b = strconv.AppendInt(append(b, `,"sequence_number":`...), a.sequence.next(), 10)
	}
	b = strconv.AppendUint(append(b, `,"seq":`...), uint64(result.Seq), 10)
	return a.respond(c, o, a.tail(b, o, start, result.Seq))
}

// queued hands op over and answers 200, as rqlite's clients demand.
func (a *API) queued(c echo.Context, o *options, op dbaas.Operation, keyed bool) error {
	if err := a.enqueue(c, op, keyed); err != nil {
		return err
	}
	id := op.ID.String()
	c.Response().Header().Set(httpapi.HeaderOpID, id)
	b := strconv.AppendInt([]byte(`{"results":[],"sequence_number":`), a.sequence.next(), 10)
	b = append(append(append(b, `,"op_id":"`...), id...), '"')
	return a.respond(c, o, a.tail(b, o, op.IssuedAt, 0))
}

// tail ends an answer with what its options ask for.
func (a *API) tail(b []byte, o *options, start time.Time, seq dbaas.Seq) []byte {
	if o.raftIndex && seq > 0 {
		b = strconv.AppendUint(append(b, `,"raft_index":`...), uint64(seq), 10)
	}
	if o.timings {
		b = appendSeconds(append(b, `,"time":`...), a.cfg.Now().Sub(start))
	}
	return append(b, '}')
}

func (a *API) respond(c echo.Context, o *options, b []byte) error {
	if o.pretty {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "    "); err != nil {
			return fmt.Errorf("indent answer: %w", err)
		}
		b = out.Bytes()
	}
	return c.JSONBlob(http.StatusOK, b)
}
