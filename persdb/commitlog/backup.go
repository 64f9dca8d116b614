package commitlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
)

const (
	// backupDir holds the files of backups while they are read, and database files that clients sent.
	backupDir = "backups"
	// maxBackups bounds how many such files exist at the same time.
	maxBackups = 2
	// backupChunk is how many bytes are copied between two checks of the free disk space.
	backupChunk = 1 << 20
	// fileTime is how long a file that a client sent may take to be checked and read.
	fileTime = 30 * time.Second
)

// cleanBackups removes the files that a dead process left.
func (s *Store) cleanBackups() error {
	dir := filepath.Join(s.cfg.Dir, backupDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o750)
}

// backupSpace creates a directory for one backup. release removes it. While maxBackups exist, backupSpace returns
// CodeUnavailable.
func (s *Store) backupSpace() (dir string, release func(), err error) {
	select {
	case s.backups <- struct{}{}:
	default:
		return "", nil, dbaas.Errorf(dbaas.CodeUnavailable, "%d backups or loads of files are being made, try again later", maxBackups)
	}
	if dir, err = os.MkdirTemp(filepath.Join(s.cfg.Dir, backupDir), ""); err != nil {
		<-s.backups
		return "", nil, dbaas.WrapError(dbaas.CodeUnavailable, "no room for a backup could be made", err)
	}
	return dir, sync.OnceFunc(func() {
		_ = os.RemoveAll(dir) // the next start removes what is left.
		<-s.backups
	}), nil
}

// Backup returns the application's tables as of one entry. It first copies them to a file beside the database, so that
// a slow reader neither delays commits nor keeps the WAL from being reset. Commits continue during the copy. ctx bounds
// the copy. Closing Body removes the file.
//
// Errors are *dbaas.Error: CodeInvalid for an unknown table, CodeUnavailable while other backups are made, CodeFull if
// the disk would have less than Config.Reserve bytes free.
func (s *Store) Backup(ctx context.Context, form dbaas.BackupForm) (*dbaas.Backup, error) {
	if err := s.leftBehind(); err != nil {
		return nil, err
	}
	dir, release, err := s.backupSpace()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	began := time.Now()
	head, err := s.copyTo(ctx, path, nil)
	var body io.ReadCloser
	if err == nil && form.SQL {
		body, err = dumpOf(path, form.Tables)
	} else if err == nil {
		body, err = strip(path)
	}
	if err != nil {
		release()
		return nil, backupError(err)
	}
	s.cfg.Log.InfoContext(ctx, "backup made", logkey.Seq, head.Seq, logkey.Took, time.Since(began))
	return &dbaas.Backup{Head: head, Body: &backupBody{ReadCloser: body, release: release}}, nil
}

func backupError(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are alike.
	case dbaas.CodeInvalid, dbaas.CodeFull, dbaas.CodeUnavailable:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "no backup could be made", err)
}

// backupBody removes the backup's directory when it is closed.
type backupBody struct {
	io.ReadCloser
	release func()
}

func (b *backupBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// copyTo writes a snapshot to a new file. It uses about half of a core. It returns CodeFull, if possible before it
// writes anything, if the disk would have less than Config.Reserve bytes free. It calls begun, unless that is nil, once
// the position is fixed.
func (s *Store) copyTo(ctx context.Context, path string, begun func(dbaas.Head) error) (head dbaas.Head, err error) {
	head, body, err := s.snapshot(ctx)
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if begun != nil {
		if err = begun(head); err != nil {
			return head, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the store's own directory.
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	left := body.source.Bytes()
	for turns := wait.NewTurns(); ; {
		if s.reserve.free() < s.cfg.Reserve+max(left, backupChunk) {
			return head, dbaas.Errorf(dbaas.CodeFull, "persdb's disk has no room for the file of a backup, which is as large as the tables")
		}
		copied, err := io.CopyN(f, body, backupChunk)
		if errors.Is(err, io.EOF) {
			return head, nil
		}
		if err != nil {
			return head, err
		}
		left -= copied
		if !turns.Rest(ctx) {
			return head, context.Cause(ctx)
		}
	}
}

// strip removes the system's own tables from a copy, and opens it for reading.
func strip(path string) (io.ReadCloser, error) {
	c, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	err = c.ExecOnce("PRAGMA secure_delete=ON") // free pages keep no remains of these tables.
	if err == nil {
		err = replication.DropInternal(c)
	}
	if err == nil {
		err = c.ExecOnce("PRAGMA journal_mode=DELETE")
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	body, _, err := openSized(path)
	return body, err
}

// openSized opens a file of the store and returns its size.
func openSized(path string) (io.ReadCloser, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path) //nolint:gosec // the store's own file.
	return f, info.Size(), err
}

// dumpOf returns the SQL text of a copy. The text is produced while it is read.
func dumpOf(path string, tables []string) (io.ReadCloser, error) {
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Scan: true})
	if err != nil {
		return nil, err
	}
	if err = replication.CheckTables(c, tables); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dumped := replication.DumpSQL(c, w, tables)
		_ = w.CloseWithError(errors.Join(dumped, c.Close())) // never fails, by its documentation.
	}()
	return &dumpBody{PipeReader: r, ended: ended}, nil
}

// dumpBody is the text of a running dump. Close stops the dump and waits for its end.
type dumpBody struct {
	*io.PipeReader
	ended <-chan struct{}
}

func (b *dumpBody) Close() error {
	err := b.PipeReader.Close()
	<-b.ended
	return err
}

// FileSQL returns the tables of a client's database file as SQL text, in the same form as Backup. The file may be
// hostile: it is checked first, opened read-only, and processed within limits of time and memory.
//
// Errors are *dbaas.Error: CodeInvalid if the file is damaged or uses something unsupported, CodeTooLarge if the text
// is longer than dbaas.MaxLoad, CodeUnavailable and CodeFull as for Backup.
func (s *Store) FileSQL(ctx context.Context, file []byte) ([]byte, error) {
	dir, release, err := s.backupSpace()
	if err != nil {
		return nil, err
	}
	defer release()
	if s.reserve.free() < s.cfg.Reserve+int64(len(file)) {
		return nil, dbaas.Errorf(dbaas.CodeFull, "persdb's disk has no room for the file")
	}
	path := filepath.Join(dir, FileName)
	if err = writeForeign(path, bytes.NewReader(file)); err != nil {
		return nil, backupError(err)
	}
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Scan: true, Limits: s.cfg.Limits})
	if err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInvalid, "the file is damaged, it could not be opened", err)
	}
	var out limitedText
	err = c.Within(ctx, func() error {
		return c.Until(time.Now().Add(fileTime), func() error { return replication.DumpForeign(c, &out) })
	})
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// The header of a database file, with offsets in bytes. Source: https://www.sqlite.org/fileformat2.html
const (
	pageSizeAt   = 16 // two bytes; 1 means 65536
	versionsAt   = 18 // the write version and the read version, one byte each
	counterAt    = 24 // the change counter, four bytes
	pagesAt      = 28 // the number of pages, four bytes
	validForAt   = 92 // the change counter at which that number was written, four bytes
	headerBytes  = 100
	walVersion   = 2
	plainVersion = 1
)

// writeForeign writes a database file that another program may have made. It switches a file in WAL mode to a rollback
// journal, since the WAL did not come with the file. It returns CodeInvalid for a file whose end is missing.
func writeForeign(path string, from io.Reader) error {
	head := make([]byte, headerBytes)
	if n, err := io.ReadFull(from, head); err == io.EOF || err == io.ErrUnexpectedEOF { // io.ReadFull returns them as they are; an error of from may wrap them.
		return dbaas.Errorf(dbaas.CodeInvalid, "the file is damaged: it has only %d bytes", n)
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the store's own directory.
	if err != nil {
		return err
	}
	for i := versionsAt; i < versionsAt+2; i++ {
		if head[i] == walVersion {
			head[i] = plainVersion
		}
	}
	_, err = f.Write(head)
	if err == nil {
		var more int64
		if more, err = io.Copy(f, from); err == nil {
			err = checkSize(head, headerBytes+more)
		}
	}
	return errors.Join(err, f.Close())
}

// checkSize returns CodeInvalid if a file of this size is shorter than its pages. The engine would read the missing
// part of the last page as zeros. Like the engine, checkSize trusts the number of pages in the header only if the last
// program that wrote the file wrote that number too, and accepts a file with more pages than that. A page size that no
// database has is left to the engine.
func checkSize(head []byte, size int64) error {
	page := int64(binary.BigEndian.Uint16(head[pageSizeAt:]))
	if page == 1 {
		page = 1 << 16
	}
	if page < 512 || page&(page-1) != 0 {
		return nil
	}
	pages := int64(binary.BigEndian.Uint32(head[pagesAt:]))
	if pages == 0 || !bytes.Equal(head[counterAt:counterAt+4], head[validForAt:validForAt+4]) {
		pages = (size + page - 1) / page
	}
	if size < pages*page {
		return dbaas.Errorf(dbaas.CodeInvalid, "the file is damaged: its pages take %d bytes, and it has only %d; copy or download it again", pages*page, size)
	}
	return nil
}

// limitedText is a buffer of at most dbaas.MaxLoad bytes.
type limitedText struct{ bytes.Buffer }

func (t *limitedText) Write(p []byte) (int, error) {
	if t.Len()+len(p) > dbaas.MaxLoad {
		return 0, dbaas.Errorf(dbaas.CodeTooLarge, "the file's tables are more than %d bytes as SQL text", dbaas.MaxLoad)
	}
	return t.Buffer.Write(p)
}
