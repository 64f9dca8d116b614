package place_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"rideshare/internal/testkit/archivetest"
	"rideshare/persdb/archive/place"

	"github.com/google/go-cmp/cmp"
)

// both runs a case on a folder and on a bucket.
func both(t *testing.T, run func(t *testing.T, p place.Place)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { run(t, open(t, "file://"+t.TempDir()+"/not/there/yet", "")) })
	t.Run("bucket", func(t *testing.T) {
		address, keys := archivetest.StartBucket(t)
		run(t, open(t, address, keys))
	})
}

func open(t *testing.T, address, keys string) place.Place {
	t.Helper()
	p, err := place.Open(address, keys)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func create(t *testing.T, p place.Place, name, body string) {
	t.Helper()
	if err := p.Create(t.Context(), name, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, p place.Place, name string) string {
	t.Helper()
	body, err := p.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func names(t *testing.T, p place.Place, prefix string) []string {
	t.Helper()
	objects, err := p.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, o := range objects {
		all = append(all, o.Name)
		if o.Modified.IsZero() || o.Bytes != int64(len(content(t, p, o.Name))) {
			t.Errorf("%s: got %+v, want its time and its size", o.Name, o)
		}
	}
	return all
}

// An object is read as it was stored. Create never changes an object, Replace does, and Remove may come twice.
func TestPlace_KeepsObjects(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place.Place) {
		t.Helper()
		if got := names(t, p, ""); len(got) != 0 {
			t.Fatalf("got %v, want an empty place", got)
		}
		if _, err := p.Open(t.Context(), "a/one"); !errors.Is(err, place.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		for _, name := range []string{"b/one", "a/two", "a/one/deep", "ab"} {
			create(t, p, name, name)
		}
		if err := p.Create(t.Context(), "ab", strings.NewReader("other")); !errors.Is(err, place.ErrExists) {
			t.Errorf("Create of a taken name: got %v, want ErrExists", err)
		}
		if got := content(t, p, "ab"); got != "ab" {
			t.Errorf("got %q after Create of a taken name, want what was there", got)
		}
		for prefix, want := range map[string][]string{
			"": {"a/one/deep", "a/two", "ab", "b/one"}, "a": {"a/one/deep", "a/two", "ab"}, "a/": {"a/one/deep", "a/two"}, "a/one/": {"a/one/deep"}, "c": nil,
		} {
			if diff := cmp.Diff(want, names(t, p, prefix)); diff != "" {
				t.Errorf("List %q (-want +got):\n%s", prefix, diff)
			}
		}
		if err := p.Replace(t.Context(), "ab", strings.NewReader("other")); err != nil || content(t, p, "ab") != "other" {
			t.Errorf("Replace: got %v, want the new bytes", err)
		}
		for range 2 {
			if err := p.Remove(t.Context(), "ab"); err != nil {
				t.Errorf("Remove: %v", err)
			}
		}
		if _, err := p.Open(t.Context(), "ab"); !errors.Is(err, place.ErrNotFound) {
			t.Errorf("got %v after Remove, want ErrNotFound", err)
		}
	})
}

// A body whose length is not known before its end is stored whole, also if it needs several parts. A name that is taken
// stays as it is then too.
func TestPlace_KeepsLargeObjects(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place.Place) {
		t.Helper()
		want := bytes.Repeat([]byte("0123456789abcdef"), 17<<16) // 17 MiB
		for _, expected := range []error{nil, place.ErrExists} {
			if err := p.Create(t.Context(), "large", io.MultiReader(bytes.NewReader(want))); !errors.Is(err, expected) {
				t.Errorf("got %v, want %v", err, expected)
			}
		}
		if got := content(t, p, "large"); got != string(want) {
			t.Errorf("got %d bytes, want the %d that were stored", len(got), len(want))
		}
	})
}

// A body that fails leaves no object, and the object that had the name stays.
func TestPlace_FailedBody_LeavesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place.Place) {
		t.Helper()
		create(t, p, "old", "old")
		broken := errors.New("broken")
		body := func() io.Reader { return io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)) }
		if err := p.Create(t.Context(), "new", body()); !errors.Is(err, broken) {
			t.Errorf("Create: got %v, want the body's error", err)
		}
		if err := p.Replace(t.Context(), "old", body()); !errors.Is(err, broken) {
			t.Errorf("Replace: got %v, want the body's error", err)
		}
		if got := names(t, p, ""); len(got) != 1 || content(t, p, "old") != "old" {
			t.Errorf("got %v, want only the old object", got)
		}
	})
}

// The end of the context ends a body that is read or stored.
func TestPlace_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place.Place) {
		t.Helper()
		create(t, p, "one", strings.Repeat("x", 1<<20))
		ctx, cancel := context.WithCancel(t.Context())
		body, err := p.Open(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = body.Close() }()
		cancel()
		if _, err = io.ReadAll(body); !errors.Is(err, context.Canceled) {
			t.Errorf("read: got %v, want context.Canceled", err)
		}
		if err = p.Create(ctx, "two", strings.NewReader("two")); !errors.Is(err, context.Canceled) {
			t.Errorf("stored: got %v, want context.Canceled", err)
		}
	})
}

// What a dead process left is no object, and goes once it is old.
func TestFolder_RemovesUnfinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := place.Folder(dir)
	create(t, p, "one", "one")
	left := filepath.Join(dir, ".unfinished", "left")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before time.Duration
		want   error
	}{{-time.Hour, nil}, {time.Hour, os.ErrNotExist}} {
		if err := p.RemoveUnfinished(t.Context(), time.Now().Add(c.before)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); !errors.Is(err, c.want) {
			t.Errorf("before %v: got %v, want %v", c.before, err, c.want)
		}
	}
	if diff := cmp.Diff([]string{"one"}, names(t, p, "")); diff != "" {
		t.Error(diff)
	}
}

// A bucket refuses other keys than its own, and uses keys that replace the old ones in the file.
func TestBucket_ReadsKeysAgain(t *testing.T) {
	t.Parallel()
	address, keys := archivetest.StartBucket(t)
	p := open(t, address, keys)
	create(t, p, "one", "one")
	write := func(secret string) {
		if err := os.WriteFile(keys, []byte(archivetest.AccessKey+"\n"+secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	if _, err := p.List(t.Context(), ""); err == nil {
		t.Error("got nil with a wrong key, want an error")
	}
	write(archivetest.SecretKey)
	if diff := cmp.Diff([]string{"one"}, names(t, p, "")); diff != "" {
		t.Error(diff)
	}
}

// A URL that names no place is refused with a reason, and no key in it is repeated.
func TestOpen_RefusesURLs(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	for _, address := range []string{
		"", "/folder", "file://host/folder", "file:", "s3:///prefix", "http://host/bucket", "s3://bucket?endpoint=host:9000",
		"s3://bucket?endpoint=https://k:topsecret@host", "s3://k:topsecret@bucket", "s3://bucket?key=topsecret", "s3://k:topsecret@bucket%zz",
	} {
		_, err := place.Open(address, "")
		if !errors.Is(err, place.ErrURL) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: got %v, want ErrURL without keys", address, err)
		}
	}
	if _, err := place.Open("s3://bucket", filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no key file: got %v, want ErrNotExist", err)
	}
	if _, err := place.Open("s3://bucket/prefix", ""); err != nil {
		t.Errorf("keys in the environment: got %v, want nil", err)
	}
}
