package zookeeper

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A URL names servers, which are not resolved, and the node under which everything is kept.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]address{
		"zk://127.0.0.1:2181":        {servers: []string{"127.0.0.1:2181"}},
		"zk://zk/":                   {servers: []string{"zk:2181"}},
		"zk://a:1,b,[::1]:3/x//y/":   {servers: []string{"a:1", "b:2181", "[::1]:3"}, root: "/x/y"},
		"zk://nowhere.invalid:1/a/b": {servers: []string{"nowhere.invalid:1"}, root: "/a/b"},
	} {
		got, err := parse(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(address{})); diff != "" || err != nil {
			t.Errorf("%s: error %v, (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "zk://", "zk:///a", "http://a:1", "zk://a:port", "zk://a:1,,b", "zk://u@a:1", "zk://a:1/x?y"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}

// Settings that cannot work are refused before anything is contacted.
func TestNew_RefusesBadSettings(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for name, c := range map[string]Config{
		"NoURL":   {Log: log},
		"NoLog":   {URL: "zk://a:1"},
		"Session": {URL: "zk://a:1", Log: log, SessionTimeout: time.Millisecond},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if k, err := New(Config{URL: "zk://a:1", Log: log}); err != nil || k.timeout != DefaultSessionTimeout {
		t.Errorf("defaults: got %v and error %v", k, err)
	}
}
