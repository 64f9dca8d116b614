package shell

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"

	"rideshare/internal/httpapi"
)

// Stdout is the file name that means standard output.
const Stdout = "-"

// ErrExists is returned by Backup if the file exists and BackupConfig.Replace is not set.
var ErrExists = errors.New("the file exists")

// BackupConfig is the settings of Backup. URL, Transport and File are required.
type BackupConfig struct {
	// URL is the orchestrator's base URL, without a trailing slash.
	URL string
	// Transport sends the request, within the time limits of LimitTransfers.
	Transport http.RoundTripper
	// Authorization is the value of the Authorization header; "" sends none.
	Authorization string
	// File is the file to write, or Stdout for Out.
	File string
	// Replace lets the backup replace an existing file.
	Replace bool
	Out     io.Writer
	// Progress, if set, takes the number of bytes so far, after each piece.
	Progress func(bytes int64)
}

// Taken describes a backup.
type Taken struct {
	Cluster string `json:"cluster_id"`
	Seq     uint64 `json:"seq"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // in hexadecimal digits
}

// Backup writes the database at one position as an SQLite file. The file appears complete or not at all, since the
// answer is first written to a temporary file beside it. Bytes that were written to Out before an error stay there.
//
// Backup returns ErrExists without sending a request if the file exists and Replace is not set.
func Backup(ctx context.Context, cfg BackupConfig) (Taken, error) {
	if err := checkTarget(cfg.File); err != nil {
		return Taken{}, err
	}
	if err := checkAbsent(&cfg); err != nil {
		return Taken{}, err
	}
	s := &shell{cfg: Config{URL: cfg.URL, Authorization: cfg.Authorization}, transfers: transfersOf(cfg.Transport)}
	resp, err := s.send(ctx, call{method: http.MethodGet, path: backupPath, transfer: true})
	if err != nil {
		return Taken{}, hinted(err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	taken := Taken{Cluster: resp.Header.Get(httpapi.HeaderCluster)}
	if seq := resp.Header.Get(httpapi.HeaderSeq); seq != "" { // an empty log has no position
		taken.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || taken.Cluster == "" {
		return Taken{}, fmt.Errorf("%s is no orchestrator: its backup has no position", cfg.URL)
	}
	sum := sha256.New()
	body := io.TeeReader(resp.Body, io.MultiWriter(sum, &counter{taken: &taken, tell: cfg.Progress}))
	if cfg.File == Stdout {
		_, err = io.Copy(cfg.Out, body)
	} else {
		err = writeWhole(cfg.File, body, func() error { return checkAbsent(&cfg) })
	}
	if err != nil {
		return Taken{}, err
	}
	taken.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return taken, nil
}

// checkAbsent returns ErrExists if the file exists and may not be replaced.
func checkAbsent(cfg *BackupConfig) error {
	if cfg.File == Stdout || cfg.Replace {
		return nil
	}
	if _, err := os.Lstat(cfg.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(ErrExists, err)
	}
	return nil
}

// counter counts the bytes of a backup.
type counter struct {
	taken *Taken
	tell  func(bytes int64)
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.taken.Bytes += int64(len(p))
	if c.tell != nil {
		c.tell(c.taken.Bytes)
	}
	return len(p), nil
}
