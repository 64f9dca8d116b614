package workertest

import (
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// maxRows bounds what a statement returns.
const maxRows = 1 << 20

// run runs the operations that are new, in one transaction and one entry. A
// schema change stands in an entry of its own.
func (s *Store) run(epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error) {
	var c dbaas.Commit
	e := dbaas.Entry{Seq: s.head.Seq + 1, Epoch: epoch, At: time.Now().Truncate(time.Millisecond)}
	if err := s.conn.BeginWrite(); err != nil {
		return c, err
	}
	defer func() { _ = s.conn.End() }() // nothing is open after a commit.
	session, err := s.conn.NewSession()
	if err != nil {
		return c, err
	}
	defer session.Close()
	ran := false
	for i := range ops {
		r, known := s.known[ops[i].ID]
		if !known {
			if r, err = s.operation(&ops[i], &e); err != nil {
				return c, err
			}
			ran = ran || r.Seq != 0
		}
		c.Results = append(c.Results, r)
	}
	if !ran {
		return c, nil
	}
	if err = s.conn.SetPosition(dbaas.Head{Seq: e.Seq, Epoch: epoch}); err != nil {
		return c, err
	}
	rows, err := session.Changeset()
	if err != nil {
		return c, err
	}
	if len(rows) > 0 {
		e.Changes = append(e.Changes, dbaas.Change{Kind: dbaas.ChangeRows, Data: rows})
	}
	session.Close()
	if err := s.conn.Commit(); err != nil {
		return c, err
	}
	for _, r := range c.Results {
		s.known[r.ID] = r
	}
	s.head.Seq = e.Seq
	s.log = append(s.log, e)
	c.Entry = &e
	return c, nil
}

func (s *Store) operation(op *dbaas.Operation, e *dbaas.Entry) (dbaas.OperationResult, error) {
	r := dbaas.OperationResult{ID: op.ID}
	if !op.Deadline.IsZero() && !op.Deadline.After(time.Now()) {
		r.Code = dbaas.CodeExpired
		return r, nil
	}
	r.Seq = e.Seq
	for i := range op.Statements {
		in := &op.Statements[i]
		stmt, err := s.conn.Prepare(in.SQL, sqlite.GuardWrite)
		var out dbaas.StatementResult
		if err == nil {
			out, err = stmt.Run(in, maxRows)
		}
		switch code := dbaas.CodeOf(err); {
		case code == dbaas.CodeInvalid || code == dbaas.CodeConstraint:
			out = dbaas.StatementResult{Code: code, Message: err.Error()}
		case err != nil:
			return r, fmt.Errorf("operation %v: %w", op.ID, err)
		case stmt.Schema():
			e.Changes = append(e.Changes, dbaas.Change{Kind: dbaas.ChangeSchema, Data: []byte(in.SQL)})
		}
		r.Statements = append(r.Statements, out)
	}
	return r, nil
}

// Write commits one operation of these statements at the newest epoch and
// returns the entry. It fails the test when a statement fails.
func (s *Store) Write(statements ...dbaas.Statement) dbaas.Entry {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.run(s.head.Epoch, []dbaas.Operation{{ID: dbaas.NewOpID(time.Now()), Statements: statements}})
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, r := range c.Results[0].Statements {
		if r.Code != dbaas.CodeOK {
			s.tb.Fatalf("%v: %s", statements, r.Message)
		}
	}
	return *c.Entry
}
