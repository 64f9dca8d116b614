package wire

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// appendStatementTime writes the time that a statement may take. Without a limit it writes nothing; the request's flags
// record whether there is a limit.
func appendStatementTime(b []byte, limit time.Duration) []byte {
	if limit <= 0 {
		return b
	}
	return packed.AppendInt(b, int64(limit))
}

func (d *decoder) statementTime(limited bool) time.Duration {
	if !limited {
		return 0
	}
	limit := time.Duration(d.Int())
	if limit <= 0 {
		d.Fail()
	}
	return limit
}

func appendStatement(b []byte, s dbaas.Statement) []byte {
	b = packed.AppendBytes(b, s.SQL)
	b = appendValues(b, s.Args)
	b = packed.AppendUint(b, uint64(len(s.Named)))
	for _, n := range s.Named {
		b = packed.AppendBytes(b, n.Name)
		b = packed.AppendValue(b, n.Value)
	}
	return b
}

func appendStatements(b []byte, statements []dbaas.Statement) []byte {
	b = packed.AppendUint(b, uint64(len(statements)))
	for _, s := range statements {
		b = appendStatement(b, s)
	}
	return b
}

func (d *decoder) statement() dbaas.Statement {
	return dbaas.Statement{SQL: d.Text(), Args: d.values(), Named: list(d, (*decoder).named)}
}

func (d *decoder) named() dbaas.NamedValue {
	return dbaas.NamedValue{Name: d.Text(), Value: d.Value()}
}

func (d *decoder) statements() []dbaas.Statement { return list(d, (*decoder).statement) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
