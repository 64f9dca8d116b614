package sqlite

// Facts describes a client's query, as known from its preparation.
type Facts struct {
	SQL    string
	Params []string // the names of the parameters, with their prefix; "" for nameless ones
	Tables []string // all tables and views that the query reads, also through views and sub-queries
	Calls  []string // all functions that the query calls
	Rowid  bool     // the query reads a row id that is not a declared column
	// Memo is for data that a caller derives from the other fields. It is kept until the schema changes.
	Memo any
}

// Calls returns the functions that the statement calls, those of the engine's own checks included.
func (s *Stmt) Calls() []string { return s.seen.calls }

// Facts describes the only statement of the last AppendRead. It returns nil if that was not exactly one SELECT that ran
// without error. The result belongs to the schema that the statement saw.
func (c *Conn) Facts() *Facts {
	s := c.queried
	if s == nil || !s.readOnly || !s.seen.selects || s.seen.pragma || s.seen.schema {
		return nil
	}
	if s.facts == nil {
		s.facts = &Facts{SQL: s.sql, Params: s.names, Tables: s.seen.tables, Calls: s.seen.calls, Rowid: s.seen.rowid}
	}
	return s.facts
}
