package commitlog_test

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
)

// plain is SQLite without any code of this system in between: no cache of statements, no authorizer, no batch. Its
// answers are right by definition.
type plain struct {
	tls *libc.TLS
	db  uintptr
}

// at views C memory as a T.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

func cText(tls *libc.TLS, s string) uintptr {
	p := libc.Xmalloc(tls, types.Size_t(len(s)+1))
	copy(unsafe.Slice(at[byte](p), len(s)+1), s+"\x00")
	return p
}

func goBytes(p uintptr, n int32) []byte {
	if p == 0 || n == 0 {
		return []byte{}
	}
	return append([]byte{}, unsafe.Slice(at[byte](p), n)...)
}

// openPlain opens a file as persdb does: with foreign keys, and without text in double quotes in schemas.
func openPlain(path string) (*plain, error) {
	tls := libc.NewTLS()
	p := &plain{tls: tls}
	name, out := cText(tls, path), libc.Xcalloc(tls, 1, 8)
	defer libc.Xfree(tls, name)
	defer libc.Xfree(tls, out)
	rc := lib.Xsqlite3_open_v2(tls, name, out, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_NOMUTEX|lib.SQLITE_OPEN_EXRESCODE, 0)
	p.db = *at[uintptr](out)
	if rc != lib.SQLITE_OK {
		return nil, fmt.Errorf("open %s: code %d", path, rc)
	}
	for op, on := range map[int32]int32{lib.SQLITE_DBCONFIG_ENABLE_FKEY: 1, lib.SQLITE_DBCONFIG_DQS_DDL: 0, lib.SQLITE_DBCONFIG_DEFENSIVE: 1} {
		va := libc.NewVaList(on, uintptr(0))
		lib.Xsqlite3_db_config(tls, p.db, op, va)
		libc.Xfree(tls, va)
	}
	for _, sql := range []string{"PRAGMA synchronous=OFF", "PRAGMA temp_store=MEMORY"} {
		if r := p.one(&dbaas.Statement{SQL: sql}); r.Code != dbaas.CodeOK {
			return nil, fmt.Errorf("%s: %s", sql, r.Message)
		}
	}
	return p, nil
}

func (p *plain) close() {
	lib.Xsqlite3_close_v2(p.tls, p.db)
	p.tls.Close()
}

// operation runs an operation by itself and returns its answer.
func (p *plain) operation(o *sqlgen.Operation) []dbaas.StatementResult {
	lib.Xsqlite3_set_last_insert_rowid(p.tls, p.db, 0)
	if o.Atomic && len(o.Statements) > 1 {
		return p.runAtomic(o.Statements)
	}
	var results []dbaas.StatementResult
	for i := range o.Statements {
		results = append(results, p.runAtomic(o.Statements[i:i+1])...)
	}
	return results
}

// runAtomic runs statements as one transaction: the first failure undoes them all.
func (p *plain) runAtomic(statements []sqlgen.Statement) []dbaas.StatementResult {
	var results []dbaas.StatementResult
	p.must("BEGIN")
	for i := range statements {
		var r dbaas.StatementResult
		if statements[i].Kind == sqlgen.Refused {
			r = dbaas.StatementResult{Code: dbaas.CodeInvalid}
		} else {
			r = p.checked(&statements[i].Statement)
		}
		if statements[i].Kind == sqlgen.Schema {
			r.RowsAffected, r.LastInsertID = 0, 0
		}
		results = append(results, r)
		if r.Code != dbaas.CodeOK {
			p.undo()
			return results
		}
	}
	if r := p.one(&dbaas.Statement{SQL: "COMMIT"}); r.Code != dbaas.CodeOK {
		p.undo()
		results[len(results)-1] = r
	}
	return results
}

// checked runs one statement with the rules that we add to SQLite's: no NULL in a primary key, no infinity in a result.
func (p *plain) checked(in *dbaas.Statement) dbaas.StatementResult {
	r := p.one(in)
	if r.Code != dbaas.CodeOK {
		return r
	}
	for _, row := range r.Rows {
		for i := range row {
			if math.IsInf(row[i].Float, 0) {
				return dbaas.StatementResult{Code: dbaas.CodeInvalid, Message: "column " + r.Columns[i] + " holds an infinity, which JSON cannot carry"}
			}
		}
	}
	keys := p.one(&dbaas.Statement{SQL: `SELECT l.name, x.name FROM pragma_table_list l, pragma_table_xinfo(l.name) x WHERE l.schema='main' AND l.type='table' AND x.pk>0 ORDER BY l.name, x.cid`})
	for _, key := range keys.Rows {
		nulls := p.one(&dbaas.Statement{SQL: fmt.Sprintf("SELECT 1 FROM %q WHERE %q IS NULL LIMIT 1", key[0].Text, key[1].Text)})
		if len(nulls.Rows) > 0 {
			return dbaas.StatementResult{Code: dbaas.CodeConstraint, Message: "NOT NULL constraint failed: " + key[0].Text + "." + key[1].Text}
		}
	}
	return r
}

func (p *plain) must(sql string) {
	if r := p.one(&dbaas.Statement{SQL: sql}); r.Code != dbaas.CodeOK {
		panic(sql + ": " + r.Message)
	}
}

// undo ends the transaction, unless the statement has ended it.
func (p *plain) undo() {
	if lib.Xsqlite3_get_autocommit(p.tls, p.db) == 0 {
		p.must("ROLLBACK")
	}
}

func (p *plain) failure(rc int32) dbaas.StatementResult {
	r := dbaas.StatementResult{Code: dbaas.CodeInvalid, Message: libc.GoString(lib.Xsqlite3_errmsg(p.tls, p.db))}
	if rc&0xff == lib.SQLITE_CONSTRAINT {
		r.Code = dbaas.CodeConstraint
	}
	return r
}

// one runs one statement.
func (p *plain) one(in *dbaas.Statement) dbaas.StatementResult {
	tls := p.tls
	sql, out := cText(tls, in.SQL), libc.Xcalloc(tls, 1, 8)
	defer libc.Xfree(tls, sql)
	defer libc.Xfree(tls, out)
	if rc := lib.Xsqlite3_prepare_v2(tls, p.db, sql, -1, out, 0); rc != lib.SQLITE_OK {
		return p.failure(rc)
	}
	stmt := *at[uintptr](out)
	defer lib.Xsqlite3_finalize(tls, stmt)
	free := p.bind(stmt, in)
	defer free()
	r := dbaas.StatementResult{}
	for i := range lib.Xsqlite3_column_count(tls, stmt) {
		r.Columns = append(r.Columns, libc.GoString(lib.Xsqlite3_column_name(tls, stmt, i)))
	}
	for {
		rc := lib.Xsqlite3_step(tls, stmt)
		if rc == lib.SQLITE_DONE {
			break
		}
		if rc != lib.SQLITE_ROW {
			return p.failure(rc)
		}
		r.Rows = append(r.Rows, p.row(stmt))
	}
	if lib.Xsqlite3_stmt_readonly(tls, stmt) == 0 {
		r.RowsAffected, r.LastInsertID = lib.Xsqlite3_changes64(tls, p.db), lib.Xsqlite3_last_insert_rowid(tls, p.db)
	}
	return r
}

// bind sets the parameters and returns a function that frees their memory.
func (p *plain) bind(stmt uintptr, in *dbaas.Statement) (free func()) {
	tls := p.tls
	var held []uintptr
	for i := range lib.Xsqlite3_bind_parameter_count(tls, stmt) {
		v := dbaas.Null()
		if int(i) < len(in.Args) {
			v = in.Args[i]
		}
		if name := lib.Xsqlite3_bind_parameter_name(tls, stmt, i+1); name != 0 {
			for _, n := range in.Named {
				if n.Name == libc.GoString(name)[1:] {
					v = n.Value
				}
			}
		}
		held = append(held, p.bindOne(stmt, i+1, v))
	}
	return func() {
		for _, m := range held {
			libc.Xfree(tls, m)
		}
	}
}

func (p *plain) bindOne(stmt uintptr, i int32, v dbaas.Value) (held uintptr) {
	tls := p.tls
	switch v.Kind {
	case dbaas.KindNull:
	case dbaas.KindInteger:
		lib.Xsqlite3_bind_int64(tls, stmt, i, v.Int)
	case dbaas.KindFloat:
		lib.Xsqlite3_bind_double(tls, stmt, i, v.Float)
	case dbaas.KindText:
		held = cText(tls, v.Text)
		lib.Xsqlite3_bind_text(tls, stmt, i, held, int32(len(v.Text)), 0)
	case dbaas.KindBlob:
		held = cText(tls, string(v.Blob))
		lib.Xsqlite3_bind_blob(tls, stmt, i, held, int32(len(v.Blob)), 0)
	}
	return held
}

func (p *plain) row(stmt uintptr) dbaas.Row {
	tls := p.tls
	row := make(dbaas.Row, lib.Xsqlite3_column_count(tls, stmt))
	for n := range row {
		i := int32(n)
		switch lib.Xsqlite3_column_type(tls, stmt, i) {
		case lib.SQLITE_INTEGER:
			row[n] = dbaas.Integer(lib.Xsqlite3_column_int64(tls, stmt, i))
		case lib.SQLITE_FLOAT:
			row[n] = dbaas.Float(lib.Xsqlite3_column_double(tls, stmt, i))
		case lib.SQLITE_TEXT:
			text := lib.Xsqlite3_column_text(tls, stmt, i)
			row[n] = dbaas.Text(string(goBytes(text, lib.Xsqlite3_column_bytes(tls, stmt, i))))
		case lib.SQLITE_BLOB:
			blob := lib.Xsqlite3_column_blob(tls, stmt, i)
			row[n] = dbaas.Blob(goBytes(blob, lib.Xsqlite3_column_bytes(tls, stmt, i)))
		}
	}
	return row
}

// show writes a row so that different values look different.
func show(row dbaas.Row) string {
	parts := make([]string, len(row))
	for i, v := range row {
		switch v.Kind {
		case dbaas.KindNull:
			parts[i] = "NULL"
		case dbaas.KindInteger:
			parts[i] = fmt.Sprint(v.Int)
		case dbaas.KindFloat:
			parts[i] = fmt.Sprintf("%g (%x)", v.Float, math.Float64bits(v.Float))
		case dbaas.KindText:
			parts[i] = fmt.Sprintf("%q", v.Text)
		case dbaas.KindBlob:
			parts[i] = fmt.Sprintf("x'%x'", v.Blob)
		}
	}
	return strings.Join(parts, " ")
}

// content is everything that clients can see of a file: the schema, every row with its rowid, the counters, and the
// results of SQLite's own checks.
func (p *plain) content() map[string]string {
	out := map[string]string{}
	read := func(name string, queries ...string) {
		for _, sql := range queries {
			r := p.one(&dbaas.Statement{SQL: sql})
			var b strings.Builder
			for _, row := range r.Rows {
				b.WriteString(show(row) + "\n")
			}
			if out[name] = b.String() + r.Message; r.Code == dbaas.CodeOK {
				return
			}
		}
	}
	read("(schema)", `SELECT type, name, tbl_name, sql FROM sqlite_master WHERE substr(lower(tbl_name),1,3)<>'rs_' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY 1, 2`)
	read("(counters)", "SELECT name, seq FROM sqlite_sequence ORDER BY 1, 2")
	read("(integrity)", "PRAGMA integrity_check")
	tables := p.one(&dbaas.Statement{SQL: `SELECT name FROM sqlite_master WHERE type='table' AND substr(lower(name),1,3)<>'rs_' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'`})
	for _, row := range tables.Rows {
		name := `"` + row[0].Text + `"`
		read(row[0].Text, "SELECT _rowid_, * FROM "+name+" ORDER BY 1", "SELECT * FROM "+name)
		// Table by table: with the whole file at once, SQLite names any of several tables with a mismatch.
		read(row[0].Text+" (foreign keys)", "SELECT rowid, parent, fkid FROM pragma_foreign_key_check('"+row[0].Text+"') ORDER BY 1, 2, 3")
	}
	return out
}
