package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive/place"
)

// Position is a position of a cluster.
type Position struct {
	Cluster dbaas.ClusterID `json:"cluster"`
	Seq     dbaas.Seq       `json:"seq"`
}

// Cluster is the content of cluster.json.
type Cluster struct {
	Format int             `json:"format"`
	ID     dbaas.ClusterID `json:"cluster"`
	// Parent is the position that the cluster was restored from; nil if it began empty.
	Parent *Position `json:"parent,omitempty"`
}

// WriterID identifies one run of a persdb process.
type WriterID [16]byte

// NewWriterID returns a random id.
func NewWriterID() (id WriterID) {
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails, by its documentation.
	return id
}

func (w WriterID) String() string { return dbaas.ClusterID(w).String() }

// MarshalText implements encoding.TextMarshaler.
func (w WriterID) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *WriterID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return dbaas.ErrBadClusterID
	}
	return (*dbaas.ClusterID)(w).UnmarshalText(text)
}

// writerNote is the content of writer.json.
type writerNote struct {
	Format  int             `json:"format"`
	Cluster dbaas.ClusterID `json:"cluster"`
	Writer  WriterID        `json:"writer"`
}

// WriteCluster stores cluster.json. place.ErrExists means that it is there already.
func WriteCluster(ctx context.Context, p place.Place, c Cluster) error {
	c.Format = Version
	body, err := seal(c)
	if err != nil {
		return err
	}
	return p.Create(ctx, c.ID.String()+"/"+clusterName, bytes.NewReader(body))
}

// ReadCluster returns the content of cluster.json, or an error that is place.ErrNotFound.
func ReadCluster(ctx context.Context, p place.Place, id dbaas.ClusterID) (Cluster, error) {
	var c Cluster
	name := id.String() + "/" + clusterName
	err := readNote(ctx, p, name, &c)
	if err == nil {
		err = checkNote(name, c.Format, c.ID == id)
	}
	return c, err
}

// WriteWriter stores in writer.json that the process writer is the archive's writer.
func WriteWriter(ctx context.Context, p place.Place, id dbaas.ClusterID, writer WriterID) error {
	body, err := seal(writerNote{Format: Version, Cluster: id, Writer: writer})
	if err != nil {
		return err
	}
	return p.Replace(ctx, id.String()+"/"+writerName, bytes.NewReader(body))
}

// ReadWriter returns the archive's current writer, or an error that is place.ErrNotFound.
func ReadWriter(ctx context.Context, p place.Place, id dbaas.ClusterID) (WriterID, error) {
	var w writerNote
	name := id.String() + "/" + writerName
	err := readNote(ctx, p, name, &w)
	if err == nil {
		err = checkNote(name, w.Format, w.Cluster == id)
	}
	return w.Writer, err
}

func checkNote(name string, format int, own bool) error {
	switch {
	case format != Version:
		return &BadObjectError{Name: name, Err: ErrVersion}
	case !own:
		return &BadObjectError{Name: name, Err: errOther}
	}
	return nil
}

// sealed begins the end of a note: the length and the SHA-256 of its text.
const sealed = `,"length":`

// seal returns v as JSON. Its last members are the length and the SHA-256 of the text before them.
func seal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("}"))
	return fmt.Appendf(text, "%s%d,\"sha256\":\"%x\"}\n", sealed, len(text), sha256.Sum256(text)), nil
}

// maxNote bounds the size of a note in bytes.
const maxNote = 64 << 10

func readNote(ctx context.Context, p place.Place, name string, v any) (err error) {
	body, err := p.Open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(body, maxNote))
	if err != nil {
		return fmt.Errorf("read archive object %s: %w", name, err)
	}
	return unseal(name, text, v)
}

// unseal verifies and decodes the text that seal returned.
func unseal(name string, text []byte, v any) error {
	at := max(0, strings.LastIndex(string(text), sealed))
	want := fmt.Sprintf("%s%d,\"sha256\":\"%x\"}\n", sealed, at, sha256.Sum256(text[:at]))
	if string(text[at:]) != want {
		return &BadObjectError{Name: name, Err: errCut}
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &BadObjectError{Name: name, Err: err}
	}
	return nil
}

// parentFile is the file in a restored cluster's data folder that holds the cluster's parent.
const parentFile = "parent.json"

// WriteParent stores in a data folder the position that the folder was restored from. The caller makes the file
// durable.
func WriteParent(dir string, parent Position) error {
	text, err := seal(parent)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, parentFile), text, 0o600)
}

// ReadParent returns the position that a data folder was restored from; nil if it was not restored.
func ReadParent(dir string) (*Position, error) {
	text, err := os.ReadFile(filepath.Join(dir, parentFile)) //nolint:gosec // persdb's own folder.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented.
	}
	var parent Position
	if err == nil {
		err = unseal(parentFile, text, &parent)
	}
	return &parent, err
}
