// Package place stores the objects of an archive: in a folder, or in a bucket of a server that speaks S3.
//
// An object appears under its name whole or not at all. Names have parts between slashes, as paths have. A Place is safe
// for concurrent use. Open returns the Place of a URL.
package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// Place stores objects by name.
//
// The methods have no timeout of their own: the caller bounds them with ctx. wait.UntilStalled works too, since bodies
// and listings report their progress with wait.ReportProgress.
type Place interface {
	// Create stores the bytes of body under a new name. They are durable once it returns nil. ErrExists means that the
	// name is taken; the existing object is unchanged. After any other error the object may exist, but only whole.
	Create(ctx context.Context, name string, body io.Reader) error
	// Replace stores the bytes of body under a name, in place of any object of that name. They are durable once it
	// returns nil. After an error either the old object or the new one exists, whole.
	Replace(ctx context.Context, name string, body io.Reader) error
	// Open returns the bytes of an object, or ErrNotFound. The caller closes them, and may do so before their end.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects whose names begin with prefix, sorted by name. The list is empty if there are none or the
	// place does not exist yet.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Remove removes an object. A missing object is no error.
	Remove(ctx context.Context, name string) error
	// RemoveUnfinished removes partly stored objects that date from before the given time. Processes that died while
	// storing leave them behind.
	RemoveUnfinished(ctx context.Context, before time.Time) error
}

// Object is one object of a Place.
type Object struct {
	Name     string
	Bytes    int64
	Modified time.Time // by the clock of the place
}

// Errors of a Place.
var (
	ErrExists   = errors.New("the archive has an object of this name already")
	ErrNotFound = errors.New("the archive has no such object")
	// ErrURL is wrapped by errors that say what is wrong with an archive's URL.
	ErrURL = errors.New("not an archive's URL")
)

// Open returns the place of a URL. It does not check that the place exists:
//
//   - file:///folder is a folder, which is created with the first object;
//   - s3://bucket/prefix?endpoint=https://host:9000&region=R is a bucket, or the part of it below prefix. The endpoint is
//     Amazon's if it is left out.
//
// The keys of a bucket come from keyFile: the access key in the first line, the secret key in the second, and an
// optional session token in the third. The file is read for each request, so keys can be replaced. If keyFile is empty,
// the keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. A URL with keys is refused.
func Open(address, keyFile string) (Place, error) {
	u, err := url.Parse(address)
	if err != nil { // the error's text could have keys in it.
		return nil, fmt.Errorf("it cannot be parsed: %w", ErrURL)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("it has keys, which belong in ARCHIVE_KEY_FILE: %w", ErrURL)
	case u.Scheme == "file" && u.Host == "" && u.Path != "" && u.RawQuery == "":
		return Folder(u.Path), nil
	case u.Scheme == "s3" && u.Host != "":
		return openBucket(u, keyFile)
	}
	return nil, fmt.Errorf("%q is neither file:///folder nor s3://bucket/prefix?endpoint=https://host:9000&region=R: %w", u.Redacted(), ErrURL)
}
