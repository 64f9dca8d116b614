// Package archivetest has what tests of the archive need: a server of buckets, and a place that misbehaves.
package archivetest

import (
	"context"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

// The keys that the server accepts.
const (
	AccessKey = "ACCESSKEY"
	SecretKey = "secret+key"
)

// StartBucket starts a server that speaks S3, checks signatures, and ends with the test. It returns the URL of a part of
// an empty bucket, and a file with the keys.
func StartBucket(tb testing.TB) (address, keyFile string) {
	tb.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(tb.Context(), "archives"); err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(undelimited{backend}, gofakes3.WithV4Auth(map[string]string{AccessKey: SecretKey})).Server())
	tb.Cleanup(server.Close)
	query := url.Values{"endpoint": {server.URL}, "region": {"us-east-1"}}
	u := url.URL{Scheme: "s3", Host: "archives", Path: "/of/" + filepath.Base(tb.TempDir()), RawQuery: query.Encode()}
	return u.String(), WriteKeys(tb, AccessKey, SecretKey)
}

// undelimited treats an empty delimiter as no delimiter, as Amazon's S3 does.
type undelimited struct{ *s3mem.Backend }

func (b undelimited) ListBucket(ctx context.Context, name string, prefix *gofakes3.Prefix, page gofakes3.ListBucketPage) (*gofakes3.ObjectList, error) {
	prefix.HasDelimiter = prefix.Delimiter != ""
	return b.Backend.ListBucket(ctx, name, prefix, page)
}

// WriteKeys returns a file with keys as place.Open reads it.
func WriteKeys(tb testing.TB, access, secret string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(access+"\n"+secret+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
