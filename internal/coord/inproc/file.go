package inproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"rideshare/internal/coord"
)

// kept is the data that survives a restart: /slavecount and the named values. Version zero means that the value was
// never set.
type kept struct {
	Slaves  int              `json:"slaves"`
	Version coord.Version    `json:"version"`
	Values  map[string]value `json:"values,omitempty"`
}

// value is a named value.
type value struct {
	Data    []byte        `json:"data"`
	Version coord.Version `json:"version"`
}

// with returns a copy of k with one value replaced.
func (k kept) with(name string, v value) kept {
	values := maps.Clone(k.Values)
	if values == nil {
		values = map[string]value{}
	}
	values[name] = v
	k.Values = values
	return k
}

// load reads the saved data; without a file it returns nothing.
func load(path string) (kept, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	}
	if err != nil {
		return kept{}, err
	}
	var c kept
	if err := json.Unmarshal(data, &c); err != nil {
		return kept{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// save replaces the file atomically: after a crash at any point the file holds the old value or the new one, and
// after nil the new one.
func save(path string, c kept) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	name := filepath.Base(path)
	temp := name + ".new"
	if err := writeSynced(dir, temp, data); err != nil {
		return err
	}
	if err := dir.Rename(temp, name); err != nil {
		return err
	}
	// Without this, a power loss may undo the rename.
	return syncDir(dir)
}

func writeSynced(dir *os.Root, name string, data []byte) error {
	f, err := dir.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
