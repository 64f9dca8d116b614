package sqlite

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// Options says how to open a file. The zero value opens a replica for writing: WAL, no fsync, no foreign keys, no
// triggers.
type Options struct {
	// ReadOnly opens an existing file for reading and refuses every write.
	ReadOnly bool
	// Undo lets a reader roll back a transaction that a dead process left in a rollback journal.
	Undo bool
	// Scan is for a reader that reads the whole file once: nothing is memory-mapped.
	Scan bool
	// Durable makes each commit wait for the disk (synchronous=FULL). Without it the file survives a crash of the
	// process but not of the machine.
	Durable bool
	// Recoverable keeps the file intact in a power failure, in the state of one of its commits (synchronous=NORMAL). No
	// commit waits for the disk, so the newest ones may be lost until the WAL is synced or checkpointed.
	Recoverable bool
	// ForeignKeys enforces foreign keys. Replicas leave it off, since the log already contains the rows of cascades.
	ForeignKeys bool
	// Triggers lets triggers fire. Replicas leave it off too, since the log already contains the rows of triggers.
	Triggers bool
	// Unchecked leaves out CHECK constraints. Replicas set it: the rows in the log have passed them, and a check may call
	// random().
	Unchecked bool
	// CacheBytes is the page cache of the connection; 2 MiB for a reader and 8 MiB for a writer if zero.
	CacheBytes int64
	// Limits bounds what clients' statements may use.
	Limits Limits
	// OnStuck, if set, is called once for a client's statement that ignores its interruption, when it has run for twice
	// its time plus a second. OnStuck gets the statement's text. It runs on the watchdog's goroutine and must not use the
	// connection.
	OnStuck func(sql string)
}

// Source: measured. A larger cache costs a writer time at every commit, when the engine walks through all of it. A
// reader's cache holds only pages from the WAL, since the reader maps the file into memory. Neither is faster with more
// cache. A cache takes twice its size in memory, since a page with its header is just above a size class of the
// allocator. A writer is no slower without a mapping, and a mapping would keep as much of the file resident as the
// writer writes.
const (
	busyTimeout      = 5 * time.Second // how long a statement waits for the lock of another connection
	readerCacheBytes = 2 << 20
	writerCacheBytes = 8 << 20
	readerMmapBytes  = 256 << 20
)

// Open opens the database file at path. It creates a missing file unless ReadOnly is set. Errors about the file wrap a
// *dbaas.Error: CodeUnavailable if another process has locked it, CodeInternal if it is not a database or cannot be
// read.
func Open(path string, o Options) (*Conn, error) {
	if started != nil {
		return nil, started
	}
	c := &Conn{
		stmts: map[string]*Stmt{}, guarded: map[string]*Stmt{},
		foreignKeys: o.ForeignKeys, triggers: o.Triggers, limits: o.Limits.WithDefaults(),
	}
	c.meter.c, c.meter.most = c, min(c.limits.Memory+o.cacheBytes(), c.limits.MemoryAll)
	c.meter.watched.onStuck = o.OnStuck
	if o.OnStuck != nil {
		watchStart.Do(func() { go watch() })
	}
	var err error
	if c.tls, err = c.meter.register(); err != nil {
		return nil, err
	}
	c.pin.Pin(c)
	err = c.open(path, o)
	if err == nil {
		err = c.configure(o)
	}
	if err != nil {
		_ = c.Close() // the first error is the one to return.
		return nil, fmt.Errorf("open %s: %w", filepath.Base(path), err)
	}
	return c, nil
}

func (c *Conn) open(path string, o Options) error {
	if c.out = libc.Xcalloc(c.tls, 1, types.Size_t(outSize)); c.out == 0 {
		return errNoMemory
	}
	readOnly := o.ReadOnly && !o.Undo
	uri, err := fileURI(path, readOnly)
	if err != nil {
		return err
	}
	if c.mainName, err = cstring(c.tls, "main"); err != nil {
		return err
	}
	name, err := cstring(c.tls, uri)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	flags := lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE
	switch {
	case readOnly:
		flags = lib.SQLITE_OPEN_READONLY
	case o.ReadOnly:
		flags = lib.SQLITE_OPEN_READWRITE
	}
	flags |= lib.SQLITE_OPEN_URI | lib.SQLITE_OPEN_NOMUTEX | lib.SQLITE_OPEN_EXRESCODE
	rc := lib.Xsqlite3_open_v2(c.tls, name, c.out, int32(flags), fileSystem.name)
	c.db = *ref[uintptr](c.out)
	if rc != lib.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}

// fileURI returns the URI of a file. Special characters in its path are escaped, so that they do not count as
// parameters.
func fileURI(path string, readOnly bool) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("path of database: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs}
	if readOnly {
		u.RawQuery = "mode=ro"
	}
	return u.String(), nil
}

func (c *Conn) configure(o Options) error {
	lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(busyTimeout/time.Millisecond))
	c.boundAll()
	lib.Xsqlite3_progress_handler(c.tls, c.db, progressOps, callback(onProgress), address(c))
	if rc := lib.Xsqlite3_set_authorizer(c.tls, c.db, callback(onAuthorize), address(c)); rc != lib.SQLITE_OK {
		return c.failure(rc)
	}
	// A string in double quotes is accepted in statements, since rqlite's clients send it. It is not accepted in the
	// schema, where it would hide misspelled columns.
	for _, f := range []struct {
		op int32
		on bool
	}{
		{lib.SQLITE_DBCONFIG_DEFENSIVE, true},
		{lib.SQLITE_DBCONFIG_DQS_DML, true},
		{lib.SQLITE_DBCONFIG_DQS_DDL, false},
		{lib.SQLITE_DBCONFIG_ENABLE_FKEY, o.ForeignKeys},
		{lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, o.Triggers},
	} {
		if err := c.setFlag(f.op, f.on); err != nil {
			return err
		}
	}
	if err := c.redefine(); err != nil {
		return err
	}
	for _, p := range o.pragmas() {
		if err := c.ExecOnce(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) setFlag(op int32, on bool) error {
	value := int32(0)
	if on {
		value = 1
	}
	va := libc.NewVaList(value, uintptr(0))
	if va == 0 {
		return errNoMemory
	}
	defer libc.Xfree(c.tls, va)
	if rc := lib.Xsqlite3_db_config(c.tls, c.db, op, va); rc != lib.SQLITE_OK {
		return dbaas.Errorf(dbaas.CodeInternal, "setting %d of the database: result code %d", op, rc)
	}
	return nil
}

// cacheBytes is the size of the page cache.
func (o Options) cacheBytes() int64 {
	if o.ReadOnly {
		return cmp.Or(o.CacheBytes, readerCacheBytes)
	}
	return cmp.Or(o.CacheBytes, writerCacheBytes)
}

// pragmas returns the statements that configure a new connection according to o.
func (o Options) pragmas() []string {
	mapped := 0
	if o.ReadOnly && !o.Scan {
		mapped = readerMmapBytes
	}
	list := []string{
		fmt.Sprintf("PRAGMA cache_size=%d", -o.cacheBytes()/1024),
		fmt.Sprintf("PRAGMA mmap_size=%d", mapped),
	}
	switch {
	case o.ReadOnly:
		list = append(list, "PRAGMA query_only=1")
	case o.Durable:
		list = append(list, "PRAGMA synchronous=FULL", "PRAGMA journal_mode=WAL")
	case o.Recoverable:
		list = append(list, "PRAGMA synchronous=NORMAL", "PRAGMA journal_mode=WAL")
	default:
		// The order matters: with synchronous on, switching to WAL would flush the whole file to the disk. For a new snapshot
		// of some 100 MiB, other processes' commits would wait for that.
		list = append(list, "PRAGMA synchronous=OFF", "PRAGMA journal_mode=WAL")
	}
	if !o.ReadOnly {
		list = append(list, "PRAGMA journal_size_limit=67108864") // a WAL that grew during a long read shrinks afterwards.
	}
	if o.Unchecked {
		list = append(list, "PRAGMA ignore_check_constraints=ON")
	}
	return list
}

// SetMaxPages bounds the size of the file, for tests of a full disk.
func (c *Conn) SetMaxPages(n int64) error {
	return c.ExecOnce(fmt.Sprintf("PRAGMA max_page_count=%d", n))
}

// ExecOnce is Exec without keeping the statement prepared.
func (c *Conn) ExecOnce(sql string) error {
	err := c.Exec(sql)
	c.forget(sql)
	return err
}

// QueryOnce is Query without keeping the statement prepared.
func (c *Conn) QueryOnce(sql string, row func(Row) error) error {
	err := c.Query(sql, row)
	c.forget(sql)
	return err
}

// forget finalizes a statement of the system's own.
func (c *Conn) forget(sql string) {
	if s := c.stmts[sql]; s != nil {
		s.finalize()
		delete(c.stmts, sql)
		c.own -= int64(s.bytes)
	}
}
