package orchestratorapi

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

const (
	// backupPiece is how much of a backup is in memory, in bytes.
	backupPiece = 64 << 10
	// backupSilence is how long a client may take for backupPiece.
	backupSilence = 30 * time.Second
)

// backup answers GET /db/backup: the application's tables at one position. Persdb makes the backup;
// this orchestrator only passes it on. A failure after the first byte cuts the connection.
func (a *API) backup(c echo.Context) (err error) {
	form, compress, err := backupOptions(c.Request().URL)
	if err != nil {
		return err
	}
	backup, err := a.cfg.Store.Backup(c.Request().Context(), form)
	if err != nil {
		return err
	}
	defer func() { _ = backup.Body.Close() }() // it was read to its end, or is of no use
	h := c.Response().Header()
	httpapi.SetSeq(c, backup.Head.Seq)
	h.Set(httpapi.HeaderCluster, backup.Head.Cluster.String())
	switch {
	case compress:
		h.Set(echo.HeaderContentType, "application/gzip")
	case form.SQL:
		h.Set(echo.HeaderContentType, "application/sql")
	default:
		h.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	}
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	to := pacedWriter{Writer: c.Response(), control: http.NewResponseController(c.Response().Writer)}
	if !compress {
		return copyBackup(to, backup.Body)
	}
	zip := gzip.NewWriter(to)
	if err = copyBackup(zip, backup.Body); err != nil {
		return err // without the end of the gzip stream
	}
	return zip.Close()
}

func copyBackup(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, backupPiece))
	return err
}

// pacedWriter gives the client backupSilence for each piece.
type pacedWriter struct {
	io.Writer
	control *http.ResponseController
}

func (w pacedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(backupSilence)) // only test recorders do not support it.
	return w.Writer.Write(p)
}

// backupOptions reads the query of GET /db/backup. As in the SQL form, a flag is on if its name is
// present, and what is not supported is refused.
func backupOptions(u *url.URL) (form dbaas.BackupForm, compress bool, err error) {
	values, err := httpapi.Query(u)
	if err != nil {
		return form, false, err
	}
	for name, given := range values {
		if len(given) > 1 {
			return form, false, dbaas.Errorf(dbaas.CodeInvalid, "option %q is given twice", name)
		}
		switch name {
		case "fmt":
			if given[0] != "binary" && given[0] != "delete" && given[0] != "sql" {
				return form, false, dbaas.Errorf(dbaas.CodeInvalid, "fmt is binary, delete or sql")
			}
			form.SQL = given[0] == "sql"
		case "tables":
			form.Tables = strings.Split(given[0], ",")
		case "compress":
			compress = true
		case "redirect", "noleader": // there is one node, and it makes the backup from what is committed.
		default:
			return form, false, dbaas.Errorf(dbaas.CodeInvalid, "option %q is not supported", name)
		}
	}
	if form.Tables != nil && !form.SQL {
		return form, false, dbaas.Errorf(dbaas.CodeInvalid, "tables is for fmt=sql: a file has all tables")
	}
	return form, compress, nil
}
