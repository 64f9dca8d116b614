package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/server"
)

// Through server and client a backup and the text of a file arrive whole, with the head and the
// reason of a refusal, and the commit of a load may take longer than others.
func TestClient_BackupAndLoad(t *testing.T) {
	s := openStore(t)
	c := to(t, server.New(s, slog.New(slog.DiscardHandler)))
	op := storetest.Op(1, "CREATE TABLE a(b); INSERT INTO a VALUES(1),(2);")
	op.Load, op.Deadline = dbaas.LoadText, time.Now().Add(time.Minute)
	storetest.Commit(t, c, storetest.Claim(t, c), op)
	b, err := c.Backup(t.Context(), dbaas.BackupForm{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(b.Body)
	if head, _ := s.Head(t.Context()); err != nil || b.Body.Close() != nil || b.Head != head {
		t.Errorf("got the head %+v, want %+v, %v", b.Head, head, err)
	}
	text, err := c.FileSQL(t.Context(), file)
	if err != nil || !strings.Contains(string(text), `INSERT INTO "a" VALUES(2);`) {
		t.Errorf("got %v, %s", err, text)
	}
	if b, err = c.Backup(t.Context(), dbaas.BackupForm{SQL: true, Tables: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	if part, err := io.ReadAll(b.Body); err != nil || strings.Contains(string(part), "users") || b.Body.Close() != nil {
		t.Errorf("got %v, %s", err, part)
	}
	for _, call := range []func() error{
		func() error {
			_, err := c.Backup(t.Context(), dbaas.BackupForm{SQL: true, Tables: []string{"a,b"}})
			return err
		},
		func() error { _, err := c.FileSQL(t.Context(), file[:4000]); return err },
	} {
		if err := call(); dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("got %v, want it refused", err)
		}
	}
}

// A backup that persdb cannot read to its end ends with an error, not as if it were whole.
func TestClient_Backup_BreaksOff(t *testing.T) {
	s := brokenBackup{failing{}}
	b, err := to(t, server.New(s, slog.New(slog.DiscardHandler))).Backup(t.Context(), dbaas.BackupForm{})
	if err == nil {
		_, err = io.Copy(io.Discard, b.Body)
		_ = b.Body.Close()
	}
	if dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

// brokenBackup is a store whose backups break off.
type brokenBackup struct{ failing }

func (brokenBackup) Backup(context.Context, dbaas.BackupForm) (*dbaas.Backup, error) {
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 3<<20)), iotest.ErrReader(errors.New("disk failed")))
	return &dbaas.Backup{Body: io.NopCloser(body)}, nil
}
