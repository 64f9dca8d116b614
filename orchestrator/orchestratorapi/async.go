package orchestratorapi

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// The states of an operation whose client does not wait for the result.
const (
	statusPending = "pending"
	statusApplied = "applied"
	statusFailed  = "failed"
)

// maxPending bounds how many accepted operations are remembered. The state of an operation that is forgotten here can
// still be found at persdb, or derived from its id if the id has a time.
const maxPending = 65536

// writeState is the answer about an operation.
type writeState struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Seq     dbaas.Seq       `json:"seq,omitempty"`
	Code    dbaas.Code      `json:"code,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	Results json.RawMessage `json:"results,omitempty"`
}

// accept hands op over and answers 202 with its id.
func (a *API) accept(c echo.Context, op dbaas.Operation, keyed bool) error {
	if _, err := a.enqueue(c, op, keyed); err != nil {
		return err
	}
	id := op.ID.String()
	h := c.Response().Header()
	h.Set(echo.HeaderLocation, "/api/v1/db/writes/"+id)
	h.Set("Preference-Applied", "respond-async")
	h.Set(httpapi.HeaderOpID, id)
	return httpapi.JSON(c, http.StatusAccepted, writeState{ID: id, Status: statusPending})
}

// writeStatus answers GET /api/v1/db/writes/{id}.
func (a *API) writeStatus(c echo.Context) error {
	id, err := dbaas.ParseOpID(httpapi.Param(c, "id"))
	if err != nil {
		return dbaas.Errorf(dbaas.CodeNotFound, "no such write")
	}
	result, err := a.cfg.Store.Lookup(c.Request().Context(), id)
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeNotFound:
		state := a.unrecorded(id)
		if state == "" {
			return dbaas.Errorf(dbaas.CodeNotFound, "no such write, or it was too long ago")
		}
		return httpapi.JSON(c, http.StatusOK, writeState{ID: id.String(), Status: state})
	case err != nil:
		return err
	}
	a.pending.remove(id)
	// From this answer the client knows of the write, so its next read must see the write.
	a.cfg.Dispatcher.SawSeq(result.Seq)
	httpapi.SetSeq(c, result.Seq)
	return httpapi.JSON(c, http.StatusOK, stateOf(id, &result))
}

// stateOf returns the outcome of an operation. It failed if it was refused or any of its
// statements failed. Results has an entry per statement; statements before the failed one
// stay in effect unless the operation was a transaction.
func stateOf(id dbaas.OpID, result *dbaas.OperationResult) writeState {
	s := writeState{ID: id.String(), Status: statusApplied, Seq: result.Seq, Code: result.Code, Detail: result.Message}
	s.Results = append(appendResults([]byte{'['}, result.Statements, renderOptions{}), ']')
	for i := range result.Statements {
		if st := &result.Statements[i]; st.Code != dbaas.CodeOK && s.Code == dbaas.CodeOK {
			s.Code, s.Detail = st.Code, st.Message
		}
	}
	if s.Code != dbaas.CodeOK {
		s.Status = statusFailed
	}
	return s
}

// unrecorded returns the state of an operation that persdb does not know, or "" if no such operation can exist. The
// operation was accepted here, or its id is so recent that another orchestrator, or this one before a restart, may have
// accepted it. If it has ended, it only read, so persdb did not record it.
func (a *API) unrecorded(id dbaas.OpID) string {
	now := a.cfg.Now()
	op, ok := a.pending.get(id)
	if !ok {
		if op.since, ok = madeAt(id); op.since.After(now.Add(time.Minute)) {
			return ""
		}
	}
	switch {
	case !ok || now.Sub(op.since) >= retainPending:
		return ""
	case op.ended:
		return statusApplied
	default:
		return statusPending
	}
}

// madeAt returns the time in an id that dbaas.NewOpID made (UUIDv7); ok is false for any other id.
func madeAt(id dbaas.OpID) (time.Time, bool) {
	if id[6]>>4 != 7 {
		return time.Time{}, false
	}
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms), true
}

// pendingOp is an operation that was accepted here.
type pendingOp struct {
	since       time.Time
	fingerprint dbaas.Fingerprint
	ended       bool // it had ended when it was accepted
}

// pendingOps remembers the operations that were accepted here, the newest maxPending of them.
type pendingOps struct {
	mu    sync.Mutex // guards the fields below
	ops   map[dbaas.OpID]pendingOp
	order []dbaas.OpID // as they were accepted; some have been removed from ops
}

func (p *pendingOps) add(id dbaas.OpID, op pendingOp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.ops[id]; !known {
		p.order = append(p.order, id)
	}
	p.ops[id] = op
	if len(p.order) > maxPending {
		delete(p.ops, p.order[0])
		p.order = p.order[1:]
	}
}

func (p *pendingOps) get(id dbaas.OpID) (op pendingOp, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	op, ok = p.ops[id]
	return op, ok
}

func (p *pendingOps) remove(id dbaas.OpID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ops, id)
}
