package zookeeper_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
)

// Nodes that are not registrations do no harm.
func TestMembers_ForeignNodesAreLeftOut(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, _ := open(t, w)
	conn := w.witness()
	for name, data := range map[string]string{
		"cont_7": "not JSON", "cont_8": `{"pid":9,"worker":"liar"}`, "other": `{"pid":1}`, "cont_": "",
	} {
		if _, err := conn.Create(w.root+"/conts/"+name, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	m := coord.Member{PID: 1, Worker: "w1"}
	register(t, s, m)
	got, err := s.Members(t.Context())
	if diff := cmp.Diff([]coord.Member{m}, got); diff != "" || err != nil {
		t.Errorf("error %v, members (-want +got):\n%s", err, diff)
	}
	wantError(t, "register over a node without an owner", s.Register(t.Context(), coord.Member{PID: 7, Worker: "w7"}), coord.ErrExists)
}

// Members returns a consistent state: of several nodes that change together, none is ever seen without the others.
func TestMembers_OneMoment(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	reader, _ := open(t, w)
	conn := w.witness()
	const members = 10
	// write changes all nodes in one transaction, which only a plain client can do.
	write := func(n int, request func(path string, data []byte) any) error {
		var all []any
		for i := range members {
			data, err := json.Marshal(coord.Member{PID: i, Worker: "w", Applied: dbaas.Seq(n)})
			if err != nil {
				return err
			}
			all = append(all, request(w.root+"/conts/cont_"+strconv.Itoa(i), data))
		}
		_, err := conn.Multi(all...)
		return err
	}
	create := func(path string, data []byte) any {
		return &zk.CreateRequest{Path: path, Data: data, Acl: zk.WorldACL(zk.PermAll)}
	}
	set := func(path string, data []byte) any { return &zk.SetDataRequest{Path: path, Data: data, Version: -1} }
	if err := write(0, create); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	all.Go(func() { // ends when stop is closed
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			case <-pause.C:
			}
			if err := write(n, set); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	})
	for range 50 {
		got, err := reader.Members(t.Context())
		if err != nil || len(got) != members {
			t.Fatalf("got %v and error %v, want %d members", got, err, members)
		}
		if got[0].Applied != got[members-1].Applied {
			t.Errorf("got %v, want all at the same position", got)
		}
	}
}
