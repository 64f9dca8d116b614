package zookeeper_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
	"rideshare/internal/coord/zookeeper"
)

// What a system has left goes, however deep, and the nodes of others stay.
func TestRemove_NodeAndAllBelow(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, _ := open(t, w)
	register(t, s, coord.Member{PID: 1, Worker: "w1"})
	conn, other := w.witness(), w.root+"-other"
	for _, path := range []string{w.root + "/conts/deep", w.root + "/conts/deep/er", other} {
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	k, err := zookeeper.New(zookeeper.Config{URL: w.url + w.root, Log: w.log})
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"with nodes", "without"} {
		if err = k.Remove(t.Context()); err != nil {
			t.Fatalf("%s: got %v, want nil", when, err)
		}
		if is, _, existsErr := conn.Exists(w.root); is || existsErr != nil {
			t.Errorf("%s: got %v, %v, want no node", when, is, existsErr)
		}
	}
	if err = conn.Delete(other, -1); err != nil {
		t.Errorf("another system's node: got %v, want it there", err)
	}
}

// The whole server is never removed.
func TestRemove_NoNode_IsRefused(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	k, err := zookeeper.New(zookeeper.Config{URL: w.url, Log: w.log})
	if err != nil {
		t.Fatal(err)
	}
	if err = k.Remove(t.Context()); err == nil {
		t.Error("got no error, want one")
	}
}
