package sqlite

// Facts is what is known of a query of a client since it was prepared.
type Facts struct {
	SQL    string
	Params []string // the names of the parameters, with their prefix; "" for nameless ones
	Tables []string // all tables and views that the query reads, through views and sub-queries too
	Calls  []string // all functions that the query calls
	Rowid  bool     // the query reads a row id that has no column
	// Memo keeps what a caller derived from the other fields. It lasts until the schema changes.
	Memo any
}

// Facts returns what is known of the only statement of the last AppendRead, or nil if that was not exactly one SELECT
// that ran without error. It belongs to the schema that the statement saw.
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
