package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"rideshare/internal/wait"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	amazon = "https://s3.amazonaws.com"
	// partBytes is the size of one part of a large object. An upload holds one part in memory, and an object has at most
	// 10,000 parts: 156 GiB.
	partBytes = 16 << 20
)

// bucket is a Place in a bucket. prefix is empty or ends with a slash.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

func openBucket(u *url.URL, keyFile string) (Place, error) {
	query := u.Query()
	endpoint, err := url.Parse(cmp.Or(query.Get("endpoint"), amazon))
	if err != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" || endpoint.Host == "" || endpoint.User != nil || strings.Trim(endpoint.Path, "/") != "" {
		return nil, fmt.Errorf("its endpoint must be like https://host:9000: %w", ErrURL)
	}
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("it may have endpoint and region after the question mark, not %q: %w", name, ErrURL)
		}
	}
	keys := credentials.NewEnvAWS()
	if keyFile != "" {
		keys = credentials.New(keyReader(keyFile))
	}
	if _, err = keys.GetWithContext(nil); err != nil {
		return nil, fmt.Errorf("keys of the archive's bucket: %w", err)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: keys, Secure: endpoint.Scheme == "https", Region: query.Get("region")})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrURL)
	}
	b := bucket{client: client, name: u.Host, prefix: strings.Trim(u.Path, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	return b, nil
}

// keyReader is a credentials.Provider that reads a file for each request.
type keyReader string

func (k keyReader) Retrieve() (credentials.Value, error) {
	text, err := os.ReadFile(string(k))
	if err != nil {
		return credentials.Value{}, err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 && len(lines) != 3 {
		return credentials.Value{}, fmt.Errorf("%s must have the access key in its first line and the secret key in its second", string(k))
	}
	lines = append(lines, "")
	return credentials.Value{AccessKeyID: lines[0], SecretAccessKey: lines[1], SessionToken: lines[2], SignerType: credentials.SignatureV4}, nil
}

func (k keyReader) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

func (keyReader) IsExpired() bool { return true }

// Create implements Place.
func (b bucket) Create(ctx context.Context, name string, body io.Reader) error {
	options := minio.PutObjectOptions{PartSize: partBytes}
	options.SetMatchETagExcept("*")
	if _, sized := body.(interface{ Len() int }); !sized { // the condition on the ETag does not apply to multipart uploads.
		if _, err := b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{}); err == nil {
			return fmt.Errorf("%s: %w", name, ErrExists)
		}
	}
	return b.put(ctx, name, body, options)
}

// Replace implements Place.
func (b bucket) Replace(ctx context.Context, name string, body io.Reader) error {
	return b.put(ctx, name, body, minio.PutObjectOptions{PartSize: partBytes})
}

func (b bucket) put(ctx context.Context, name string, body io.Reader, options minio.PutObjectOptions) error {
	size := int64(-1) // not known before the end: a multipart upload.
	if sized, ok := body.(interface{ Len() int }); ok {
		size = int64(sized.Len())
	}
	options.Progress = sent{ctx} // minio sends parts from its own memory.
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, heard{ctx, body}, size, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return b.wrap("store", name, err)
}

// sent reports progress for the bytes that minio sends.
type sent struct{ ctx context.Context }

// Read implements io.Reader.
func (s sent) Read(p []byte) (int, error) {
	if len(p) > 0 {
		wait.ReportProgress(s.ctx)
	}
	return len(p), nil
}

func (b bucket) wrap(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s in bucket %s: %w", what, name, b.name, err)
}

// Open implements Place.
func (b bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound && minio.ToErrorResponse(err).Code != minio.NoSuchBucket {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, b.wrap("read", name, err)
	}
	return readCloser{heard{ctx, body}, body}, nil
}

// List implements Place.
func (b bucket) List(ctx context.Context, prefix string) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the listing early.
	defer cancel()
	var objects []Object
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.wrap("list", prefix, o.Err)
		}
		wait.ReportProgress(ctx)
		objects = append(objects, Object{Name: strings.TrimPrefix(o.Key, b.prefix), Bytes: o.Size, Modified: o.LastModified})
	}
	return objects, context.Cause(ctx)
}

// Remove implements Place.
func (b bucket) Remove(ctx context.Context, name string) error {
	return b.wrap("remove", name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

// RemoveUnfinished implements Place.
func (b bucket) RemoveUnfinished(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core := minio.Core{Client: b.client}
	var errs []error
	for u := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, true) {
		if u.Err == nil && u.Initiated.Before(before) {
			u.Err = core.AbortMultipartUpload(ctx, b.name, u.Key, u.UploadID)
		}
		errs = append(errs, u.Err)
	}
	return b.wrap("remove unfinished uploads", b.prefix, errors.Join(errs...))
}
