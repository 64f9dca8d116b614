package shell_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/shell"
)

const content = "SQLite format 3\x00 and more"

// backupOf makes a backup to a file of a folder of its own, and returns the names of the files there afterwards.
func backupOf(t *testing.T, serve http.HandlerFunc, change func(*shell.BackupConfig)) (taken shell.Taken, files map[string]string, err error) {
	t.Helper()
	server := httptest.NewServer(serve)
	defer server.Close()
	dir := t.TempDir()
	cfg := shell.BackupConfig{URL: server.URL, Transport: limitedBackup(), File: filepath.Join(dir, "backup.db")}
	change(&cfg)
	taken, err = shell.Backup(t.Context(), cfg)
	entries, listed := os.ReadDir(dir)
	if listed != nil {
		t.Fatal(listed)
	}
	files = map[string]string{}
	for _, e := range entries {
		text, unread := os.ReadFile(filepath.Join(dir, e.Name()))
		if unread != nil {
			t.Fatal(unread)
		}
		files[e.Name()] = string(text)
	}
	return taken, files, err
}

func whole(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/db/backup" || r.Header.Get("Authorization") != "Basic x" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	w.Header().Set("X-Seq", "7")
	w.Header().Set("X-Cluster-Id", "id")
	_, _ = w.Write([]byte(content))
}

func cut(w http.ResponseWriter, r *http.Request) {
	whole(w, r)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func TestBackup_AppearsWholeOrNotAtAll(t *testing.T) {
	sum := sha256.Sum256([]byte(content))
	want := shell.Taken{Cluster: "id", Seq: 7, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	existing := func(c *shell.BackupConfig) {
		if err := os.WriteFile(c.File, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		change func(*shell.BackupConfig)
		files  string // content of backup.db, "" for no file
		err    string // part of the error
	}{
		"whole":        {serve: whole, files: content},
		"cut":          {serve: cut, err: "backup.db is not written"},
		"exists":       {serve: whole, change: existing, files: "old", err: shell.ErrExists.Error()},
		"replaces":     {serve: whole, change: func(c *shell.BackupConfig) { existing(c); c.Replace = true }, files: content},
		"cut, keeps":   {serve: cut, change: func(c *shell.BackupConfig) { existing(c); c.Replace = true }, files: "old", err: "is not written"},
		"unauthorized": {serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, err: "--auth-file or --user"},
		"no position":  {serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, err: "is no orchestrator"},
		"made meanwhile": {serve: whole, files: "other", err: shell.ErrExists.Error(), change: func(c *shell.BackupConfig) {
			c.Progress = func(int64) { _ = os.WriteFile(c.File, []byte("other"), 0o600) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			taken, files, err := backupOf(t, c.serve, func(cfg *shell.BackupConfig) {
				cfg.Authorization = "Basic x"
				if c.change != nil {
					c.change(cfg)
				}
			})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if err == nil && taken != want {
				t.Errorf("got %+v, want %+v", taken, want)
			}
			left := 1
			if c.files == "" {
				left = 0
			}
			if len(files) != left || files["backup.db"] != c.files {
				t.Errorf("left in the folder: %q, want backup.db with %q", files, c.files)
			}
		})
	}
}

// On standard output a backup that is cut is an error too.
func TestBackup_ToStandardOutput(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{"whole": whole, "cut": cut} {
		var out bytes.Buffer
		_, files, err := backupOf(t, serve, func(c *shell.BackupConfig) { c.File, c.Out, c.Authorization = shell.Stdout, &out, "Basic x" })
		if out.String() != content || len(files) > 0 || (err == nil) != (name == "whole") || errors.Is(err, shell.ErrExists) {
			t.Errorf("%s: got %q, files %q, %v", name, out.String(), files, err)
		}
	}
}

// limitedBackup returns a transport with the time limits of a backup.
func limitedBackup() *http.Transport {
	t := &http.Transport{}
	shell.LimitTransfers(t)
	return t
}
