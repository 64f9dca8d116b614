package server

import (
	"errors"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rpc"
	"rideshare/persdb/client"
)

// backup sends a backup. It cuts the connection if the reader is too slow or the copy fails.
func (s *server) backup(w http.ResponseWriter, r *http.Request) (err error) {
	query := r.URL.Query()
	form := dbaas.BackupForm{SQL: query.Get("sql") == "true", Tables: query["table"]}
	backup, err := s.store.Backup(r.Context(), form)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Body.Close()) }()
	client.SetHead(w.Header(), backup.Head)
	w.Header().Set("Content-Type", "application/octet-stream")
	if err = stream(r.Context(), w, backup.Body, backupTime); err != nil {
		return errors.Join(rpc.ErrCut, err)
	}
	return nil
}

// fileSQL answers with the SQL text of a database file. At most one large file or one large commit is in memory at a
// time.
func (s *server) fileSQL(w http.ResponseWriter, r *http.Request) error {
	done, err := s.commits.take(r.Context(), r.ContentLength)
	if err != nil {
		return err
	}
	defer done()
	file, err := httpapi.ReadLimited(w, r, dbaas.MaxLoad)
	if err != nil {
		return err
	}
	text, err := s.store.FileSQL(r.Context(), file)
	if err != nil {
		return err
	}
	return sendParts(w, [][]byte{text})
}
