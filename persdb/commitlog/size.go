package commitlog

import (
	"context"
	"os"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/sqlite"
)

// warnAt and roomyAt are percentages of the limit.
const (
	warnAt  = 80 // above it a warning is logged, and a refused write means that the database is full
	roomyAt = 95 // below it a full database is no longer full after the next write
)

// measure records the size of the tables. The caller owns the connection, and no transaction is open.
func (s *Store) measure() error {
	used, err := s.conn.UsedPages()
	if err != nil {
		return err
	}
	s.tables.Store(used * sqlite.PageSize)
	if s.tables.Load() < s.cfg.MaxTables/100*roomyAt {
		s.outgrew.Store(false)
	}
	return nil
}

// watch logs one warning when the tables come near their limit.
func (s *Store) watch(ctx context.Context) {
	size, limit := s.tables.Load(), s.cfg.MaxTables
	near := limit > 0 && size > limit/100*warnAt
	if near && !s.near {
		s.cfg.Log.WarnContext(ctx, "the database comes near its limit, at which only what does not let it grow is taken",
			logkey.Bytes, size, logkey.Limit, limit)
	}
	s.near = near
}

// begin starts a round: it starts recording changes and records the number of used pages.
func (b *batch) begin() error {
	if err := b.s.capture.Begin(); err != nil || b.s.limit() == 0 {
		return err
	}
	used, err := b.s.conn.UsedPages()
	b.used, b.plan.used = used, used
	return err
}

// checkGrowth removes operation i, which has just run, from the batch if it has made the tables too large. It acts only
// in a strict round: checkSize first checks the batch as a whole.
func (b *batch) checkGrowth(i int) error {
	p := &b.plan
	if !p.strict {
		return nil
	}
	before := p.used
	over, err := b.tooLarge()
	if err == nil && over && p.used > before {
		return b.overflow(i, b.s.outgrown())
	}
	return err
}

// checkSize makes the batch run again in a strict round, checked operation by operation, if it has grown the tables
// beyond their limit.
func (b *batch) checkSize() error {
	if b.plan.strict || b.s.limit() == 0 {
		return nil
	}
	over, err := b.tooLarge()
	if err == nil && over && b.plan.used > b.used {
		b.plan.strict, err = true, errRetry
	}
	return err
}

// tooLarge reports whether the tables now exceed their limit.
func (b *batch) tooLarge() (bool, error) {
	now, err := b.s.conn.UsedPages()
	if err != nil {
		return false, unavailable(err)
	}
	b.plan.used = now
	return b.s.tables.Load()+(now-b.used)*sqlite.PageSize > b.s.limit(), nil
}

// limit returns how many bytes the tables may take at present; 0 means no limit. On a full disk whose reserve is used
// up, the tables may not grow. The caller owns the connection.
func (s *Store) limit() int64 {
	if s.short() && (s.cfg.MaxTables == 0 || s.fullAt < s.cfg.MaxTables) {
		return s.fullAt
	}
	return s.cfg.MaxTables
}

// outgrown returns the error for an operation that would make the tables too large.
func (s *Store) outgrown() *dbaas.Error {
	if s.short() {
		return errDiskFull
	}
	const mib = 1 << 20
	what := "the database is full"
	if s.tables.Load() < s.cfg.MaxTables/100*warnAt { // other writes have room
		what = "the write needs more room than the database has left"
	} else {
		s.outgrew.Store(true)
	}
	return dbaas.Errorf(dbaas.CodeFull, "%s: %d of %d MiB; delete rows or raise MAX_DATABASE_MIB", what, (s.tables.Load()+mib-1)/mib, s.cfg.MaxTables/mib)
}

// Sizes returns the present sizes of the database. It does not wait for commits.
func (s *Store) Sizes(context.Context) (dbaas.Sizes, error) {
	s.mu.RLock()
	out := dbaas.Sizes{
		Tables: s.tables.Load(), Limit: s.cfg.MaxTables, Log: s.index.bytes, DiskFull: s.full.Load(), Full: s.outgrew.Load(),
	}
	s.mu.RUnlock()
	for _, path := range []string{s.path(), s.logPath()} {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(path + suffix); err == nil { // a missing file has no bytes.
				out.File += info.Size()
			}
		}
	}
	out.DiskFree = freeBytes(s.cfg.Dir)
	return out, nil
}
