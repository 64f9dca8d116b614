// Package sqlgen makes random SQL for tests: schemas with every kind of key, collation, conflict clause, generated
// column, trigger, view, foreign key and index, and operations on them whose names, texts and values collide on purpose.
// The output depends only on a seed.
package sqlgen

import (
	"fmt"
	"strings"

	"rideshare/internal/dbaas"
)

// Kind says what a statement's answer can be compared with.
type Kind uint8

const (
	// Rows is a statement that reads or changes rows.
	Rows Kind = iota
	// Schema is a statement that changes the schema.
	Schema
	// Refused is a statement that SQLite runs and the system rejects.
	Refused
)

// Statement is one statement with its parameters.
type Statement struct {
	dbaas.Statement

	Kind Kind
}

// Operation is one write as sent by a client. Operations with the same Number have the same id.
type Operation struct {
	Number     int
	Atomic     bool
	Statements []Statement
}

// SQL returns the statements in the form that an operation carries.
func (o *Operation) SQL() []dbaas.Statement {
	out := make([]dbaas.Statement, len(o.Statements))
	for i := range o.Statements {
		out[i] = o.Statements[i].Statement
	}
	return out
}

// Action is what happens to the system after a batch.
type Action string

// The actions.
const (
	Nothing Action = ""
	Restart Action = "restart" // the store is closed and reopened
	Trim    Action = "trim"    // the log is trimmed as far as its bounds allow
	Join    Action = "join"    // one more replica starts with a snapshot
	Claim   Action = "claim"   // a new master claims an epoch
	Follow  Action = "follow"  // replicas apply all available entries
)

// Batch is the content of one commit.
type Batch struct {
	Operations []Operation
	Then       Action
}

// Script is one whole run.
type Script struct {
	Seed uint64
	// Loose means that statements may depend on chance, the clock or the connection: a second database that runs the
	// same texts gets different rows.
	Loose   bool
	Batches []Batch
}

// String formats the script for readers.
func (s *Script) String() string {
	var b strings.Builder
	for i, batch := range s.Batches {
		fmt.Fprintf(&b, "batch %d\n", i)
		for _, o := range batch.Operations {
			b.WriteString(o.String())
		}
		if batch.Then != Nothing {
			fmt.Fprintf(&b, "  then %s\n", batch.Then)
		}
	}
	return b.String()
}

// String formats the operation for readers.
func (o *Operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  operation %d", o.Number)
	if o.Atomic {
		b.WriteString(", atomic")
	}
	b.WriteByte('\n')
	for _, st := range o.Statements {
		fmt.Fprintf(&b, "    %s", st.SQL)
		for _, v := range st.Args {
			fmt.Fprintf(&b, " | %s", literal(v))
		}
		for _, v := range st.Named {
			fmt.Fprintf(&b, " | %s=%s", v.Name, literal(v.Value))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// operations returns how many operations the script has.
func (s *Script) operations() int {
	n := 0
	for _, b := range s.Batches {
		n += len(b.Operations)
	}
	return n
}
