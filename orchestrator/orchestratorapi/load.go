package orchestratorapi

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unsafe"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// fileStart begins every SQLite file.
const fileStart = "SQLite format 3"

// answerTime is how long the answer to a load may take to be sent.
const answerTime = 10 * time.Second

// load answers POST /db/load: SQL text as one operation, or a database file in place of empty
// tables. Persdb turns a file into SQL text.
func (a *API) load(c echo.Context) error {
	start := a.cfg.Now()
	o, err := a.parseOptions(c)
	if err != nil {
		return err
	}
	if o.hasQ || o.queue || o.transaction {
		return dbaas.Errorf(dbaas.CodeInvalid, "q, queue and transaction are not for /db/load: the body is one transaction")
	}
	body, err := httpapi.ReadLimited(c.Response(), c.Request(), dbaas.MaxLoad)
	if err != nil {
		return tooMuch(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return dbaas.Errorf(dbaas.CodeInvalid, "the body is empty: it is SQL text or an SQLite file")
	}
	// A load may take longer than the server allows for an answer. Only test recorders do not
	// support this.
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(2*a.cfg.LoadTime + dbaas.LoadGrace + answerTime))
	mode, text := dbaas.LoadText, body
	if bytes.HasPrefix(body, []byte(fileStart)) {
		mode = dbaas.LoadReplace
		if text, err = a.cfg.Store.FileSQL(c.Request().Context(), body); err != nil {
			return tooMuch(err)
		}
		if err = httpapi.Hold(c.Request().Context(), int64(len(text))); err != nil {
			return err
		}
	}
	sql := unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // The text is not changed after it has been read.
	result, err := a.runLoad(c, sql, mode)
	if err != nil {
		return tooMuch(err)
	}
	b := []byte(`{"results":[`)
	if statements := result.Statements; mode == dbaas.LoadText || len(statements) > 0 && statements[0].Code != dbaas.CodeOK {
		o.took = a.cfg.Now().Sub(start)
		b = appendResults(b, statements, o.renderOptions)
	}
	b = strconv.AppendUint(append(b, `],"seq":`...), uint64(result.Seq), 10)
	httpapi.Charge(c.Request().Context(), int64(cap(b)))
	return a.respond(c, &o, answer{body: a.tail(b, &o, start, result.Seq)})
}

func (a *API) runLoad(c echo.Context, sql string, mode dbaas.LoadMode) (dbaas.OperationResult, error) {
	op, keyed, err := a.newOperation(c, []dbaas.Statement{{SQL: sql}}, true)
	if err != nil {
		return dbaas.OperationResult{}, err
	}
	op.Load, op.Deadline = mode, a.cfg.Now().Add(a.cfg.LoadTime+dbaas.LoadGrace)
	return a.run(c, op, keyed)
}

// tooMuch adds to CodeTooLarge how to load a larger database. It returns other errors as they are.
func tooMuch(err error) error {
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code == dbaas.CodeTooLarge {
		return dbaas.WrapError(dbaas.CodeTooLarge, e.Message+"; `rideshare restore` makes a data folder of a large SQLite file", err)
	}
	return err
}
