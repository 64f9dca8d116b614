package orchestratorapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/sqlbody"
)

// structuredRead answers POST /api/v1/db/read: the rows as an array of objects. The read sees
// every write that this orchestrator acknowledged before the request arrived.
func (a *API) structuredRead(c echo.Context) error {
	body, err := httpapi.ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	st, err := sqlbody.ParseRead(body)
	if err != nil {
		return err
	}
	read, err := a.newRead(c, []dbaas.Statement{st}, a.cfg.CallTimeout)
	if err != nil {
		return err
	}
	read.Format, read.Recent = dbaas.FormatObjects, true
	result, err := a.dispatch(c, read)
	if err != nil {
		return err
	}
	return send(c, answer{body: result.Body})
}

// structuredWrite answers POST /api/v1/db/write: {} once the write is on disk.
func (a *API) structuredWrite(c echo.Context) error {
	body, err := httpapi.ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	st, err := sqlbody.ParseWrite(body)
	if err != nil {
		return err
	}
	return a.write(c, []dbaas.Statement{st})
}

// clear answers POST /api/v1/db/clear. A body is ignored.
func (a *API) clear(c echo.Context) error { return a.write(c, a.cfg.Clear) }

// write runs the statements as one operation, or only hands it over if the client prefers
// not to wait. The answer is the error of the first statement that failed, if any.
func (a *API) write(c echo.Context, statements []dbaas.Statement) error {
	op, keyed, err := a.newOperation(c, statements, len(statements) > 1)
	if err != nil {
		return err
	}
	if wantsAsync(c) {
		return a.accept(c, op, keyed)
	}
	result, err := a.run(c, op, keyed)
	if err != nil {
		return err
	}
	for i := range result.Statements {
		s := &result.Statements[i]
		switch {
		case s.Code == dbaas.CodeTimeout: // it failed for good: 504 would mean that it may still be done
			return dbaas.Errorf(dbaas.CodeInvalid, "%s: the statement takes too long, it was not done", s.Message)
		case s.Code != dbaas.CodeOK:
			return &dbaas.Error{Code: s.Code, Message: s.Message}
		}
	}
	return httpapi.Empty(c, http.StatusOK)
}
