package restore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/restore"
)

// hooked is a place that calls opening before the open numbered at of an object whose name contains part, and replaces
// the body of that object by what body returns. Numbers begin with 1; at 0 stands for each open.
type hooked struct {
	place.Place

	part    string
	at      int64
	opening func()
	body    func(ctx context.Context, body io.Reader) io.Reader

	opens atomic.Int64
}

func (h *hooked) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if !strings.Contains(name, h.part) || h.opens.Add(1) != h.at && h.at > 0 {
		return h.Place.Open(ctx, name)
	}
	if h.opening != nil {
		h.opening()
	}
	body, err := h.Place.Open(ctx, name)
	if err != nil || h.body == nil {
		return body, err
	}
	return struct {
		io.Reader
		io.Closer
	}{h.body(ctx, body), body}, nil
}

// failing is a body that ends with an error after its first bytes.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A snapshot whose bytes stop coming behind its header is no damaged file: the error names the object.
func TestFromArchive_CutConnection_IsNoDamage(t *testing.T) {
	t.Parallel()
	r := filled(t)
	p := &hooked{Place: r.p, part: "/snapshot/", body: func(_ context.Context, body io.Reader) io.Reader {
		return io.MultiReader(header(t, body), failing{io.ErrUnexpectedEOF})
	}}
	_, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{})
	if name := r.catalog(t).Snapshots[1].Name; err == nil || !strings.Contains(err.Error(), name) || dbaas.CodeOf(err) == dbaas.CodeInvalid {
		t.Errorf("got %v, code %v, want the name %s and no CodeInvalid", err, dbaas.CodeOf(err), name)
	}
	if _, bad := errors.AsType[*archive.BadObjectError](err); bad {
		t.Errorf("got %v, want the object not called bad", err)
	}
}

// header returns the header of an object: 26 bytes that end with the length of a text, the text, and four bytes.
func header(t *testing.T, body io.Reader) io.Reader {
	t.Helper()
	head := make([]byte, 26)
	if _, err := io.ReadFull(body, head); err != nil {
		t.Error(err)
	}
	return io.MultiReader(strings.NewReader(string(head)), io.LimitReader(body, int64(binary.BigEndian.Uint32(head[22:]))+4))
}
