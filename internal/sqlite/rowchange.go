package sqlite

import (
	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// RowOp is what happens to a row.
type RowOp uint8

// The changes of a row.
const (
	RowInsert RowOp = iota
	RowDelete
	RowUpdate
)

// RowChange is a row that the engine is about to change. It is valid until the function of OnRow returns.
type RowChange struct {
	Op       RowOp
	From, To int64 // the row ids before and after the change; without meaning for a table WITHOUT ROWID

	c    *Conn
	name uintptr
}

// OnRow makes the engine call row before each change of a row on c, whether a statement, trigger, cascade or conflict
// clause makes the change; nil turns that off. row runs on the goroutine that runs the statement. It may call no method
// of the connection except Stop.
//
// While row is set, DELETE without WHERE visits each row.
func (c *Conn) OnRow(row func(*RowChange)) {
	c.onRow = row
	if row == nil {
		lib.Xsqlite3_preupdate_hook(c.tls, c.db, 0, 0)
		return
	}
	lib.Xsqlite3_preupdate_hook(c.tls, c.db, callback(onPreUpdate), address(c))
}

// onPreUpdate is called by the engine before each change of a row.
func onPreUpdate(_ *libc.TLS, arg, _ uintptr, op int32, _, name uintptr, from, to int64) { //nolint:revive // the engine's signature.
	c := ref[Conn](arg)
	c.change = RowChange{Op: RowUpdate, From: from, To: to, c: c, name: name}
	switch op {
	case lib.SQLITE_INSERT:
		c.change.Op = RowInsert
	case lib.SQLITE_DELETE:
		c.change.Op = RowDelete
	}
	c.onRow(&c.change)
}

// Table returns the name of the row's table, in the engine's memory.
func (r *RowChange) Table() []byte { return view(r.name, int(libc.Xstrlen(r.c.tls, r.name))) }

// Old returns the value that column i of the table has before the change. Its text or blob is the engine's memory.
func (r *RowChange) Old(i int32) (dbaas.Value, error) { return r.value(lib.Xsqlite3_preupdate_old, i) }

// New returns the value that column i of the table has after the change. Its text or blob is the engine's memory.
func (r *RowChange) New(i int32) (dbaas.Value, error) { return r.value(lib.Xsqlite3_preupdate_new, i) }

func (r *RowChange) value(get func(tls *libc.TLS, db uintptr, index int32, value uintptr) int32, i int32) (dbaas.Value, error) {
	c := r.c
	if rc := get(c.tls, c.db, i, c.out); rc != lib.SQLITE_OK {
		return dbaas.Value{}, &dbaas.Error{Code: codeOf(rc), Message: "a row could not be recorded"}
	}
	v := *ref[uintptr](c.out)
	switch lib.Xsqlite3_value_type(c.tls, v) {
	case lib.SQLITE_INTEGER:
		return dbaas.Integer(lib.Xsqlite3_value_int64(c.tls, v)), nil
	case lib.SQLITE_FLOAT:
		return dbaas.Float(lib.Xsqlite3_value_double(c.tls, v)), nil
	case lib.SQLITE_TEXT:
		p := lib.Xsqlite3_value_blob(c.tls, v) // value_text would first copy the text, to end it with a zero byte.
		return dbaas.Text(asString(view(p, int(lib.Xsqlite3_value_bytes(c.tls, v))))), nil
	case lib.SQLITE_BLOB:
		p := lib.Xsqlite3_value_blob(c.tls, v)
		return dbaas.Blob(view(p, int(lib.Xsqlite3_value_bytes(c.tls, v)))), nil
	default:
		return dbaas.Null(), nil
	}
}
