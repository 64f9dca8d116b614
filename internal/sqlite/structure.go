package sqlite

import (
	"iter"
	"unsafe"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// QuickCheck reads the whole file and returns a CodeInternal error if its structure is damaged.
func (c *Conn) QuickCheck() error {
	damage, err := c.Damage(nil)
	if err == nil && damage != "" {
		err = dbaas.Errorf(dbaas.CodeInternal, "database file is damaged: %s", damage)
	}
	return err
}

// Damage reads the whole file, with the limits of a client's statement unless guard is nil, and returns the first damage of its
// structure, or "". It computes no expression of the schema: CHECKs and VIRTUAL columns may fail, have another result than at the
// insert, or need any amount of time and memory. So Damage says nothing about what the columns hold.
func (c *Conn) Damage(guard Guard) (damage string, err error) {
	const sql = "PRAGMA quick_check(1)"
	if _, err = c.Prepare(sql, guard); err != nil { // reads the schema into memory
		return "", err
	}
	c.forget(sql)
	db := ref[lib.Tsqlite3](c.db)
	flags := db.Fflags
	c.untype()
	db.Fflags |= lib.SQLITE_IgnoreChecks
	s, err := c.Prepare(sql, guard)
	db.Fflags = flags
	if err == nil {
		damage, err = s.firstText()
		c.forget(sql)
	}
	if again := c.ExecOnce("PRAGMA writable_schema=RESET"); err == nil { // reads the schema again
		err = again
	}
	if damage == "ok" {
		damage = ""
	}
	return damage, err
}

// VirtualTable returns the name of a virtual table of the file, or "". It runs nothing of a virtual table, and believes
// nothing that the file says about its tables except their texts.
func (c *Conn) VirtualTable(guard Guard) (string, error) {
	const sql = "SELECT 1 FROM sqlite_schema"
	if _, err := c.Prepare(sql, guard); err != nil { // reads the schema into memory
		return "", err
	}
	for t := range c.tables() {
		if t.FeTabType == lib.TABTYP_VTAB {
			return libc.GoString(t.FzName), nil
		}
	}
	return "", nil
}

// tables yields the tables and views of the schema in memory.
func (c *Conn) tables() iter.Seq[*lib.TTable] {
	return func(yield func(*lib.TTable) bool) {
		db := ref[lib.Tsqlite3](c.db)
		for e := ref[lib.TSchema](ref[lib.TDb](db.FaDb).FpSchema).FtblHash.Ffirst; e != 0; e = ref[lib.THashElem](e).Fnext {
			if !yield(ref[lib.TTable](ref[lib.THashElem](e).Fdata)) {
				return
			}
		}
	}
}

// untype removes types and NOT NULL from all columns of the schema in memory. Then quick_check has nothing to look up in a column.
func (c *Conn) untype() {
	for t := range c.tables() {
		if t.FeTabType != lib.TABTYP_NORM {
			continue
		}
		for i := range uintptr(t.FnCol) {
			column := t.FaCol + i*unsafe.Sizeof(lib.TColumn{})
			ref[lib.TColumn](column).Faffinity = lib.SQLITE_AFF_BLOB
			// The byte before the affinity has NOT NULL and the type of a STRICT table.
			*ref[byte](column + unsafe.Offsetof(lib.TColumn{}.Faffinity) - 1) = 0
		}
	}
}

// firstText runs the statement and returns the text of its first row, or "".
func (s *Stmt) firstText() (text string, err error) {
	defer s.reset()
	more, err := s.step()
	if more {
		text = Row{s}.Text(0)
	}
	return text, err
}
