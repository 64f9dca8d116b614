package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Servers are tried in turn, by name; the library pauses only after all have failed. A round starts with a random wait, and with a
// single server every try is a round.
func TestLink_PausesAfterAllServersFailed(t *testing.T) {
	t.Parallel()
	l := &link{servers: []string{"a:1", "b:2"}}
	type step struct {
		server       string
		pause, first bool
	}
	next := func() step {
		server, pause := l.Next()
		return step{server, pause, l.startsRound()}
	}
	want := []step{{"a:1", false, true}, {"b:2", false, false}, {"a:1", true, true}, {"b:2", true, false}}
	for i, w := range want {
		if got := next(); got != w {
			t.Errorf("try %d: got %v, want %v", i, got, w)
		}
	}
	l.Connected()
	if got := next(); got != (step{"a:1", false, true}) {
		t.Errorf("after success: got %v, want the next server immediately", got)
	}
	for alone := (&link{servers: []string{"a:1"}}); alone.tried < 3; {
		if _, _ = alone.Next(); !alone.startsRound() {
			t.Errorf("single server, try %d: got no round", alone.tried)
		}
	}
}

// After the end of a session no connection is made. So the library cannot start another session, and its pending
// requests fail.
func TestLink_StoppedMakesNoConnection(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	l := &link{servers: []string{listener.Addr().String()}, session: time.Second}
	conn, err := l.dial(t.Context(), "tcp", l.servers[0], time.Minute)
	if err != nil {
		t.Fatalf("before the end: got %v, want a connection", err)
	}
	l.Connected()
	l.stop()
	l.cut()
	if _, err = conn.Write([]byte{1}); err == nil {
		t.Error("after cut: got no error, want a closed connection")
	}
	if _, err = l.dial(t.Context(), "tcp", l.servers[0], time.Minute); !errors.Is(err, errStopped) {
		t.Errorf("dial after the end: got error %v, want %v", err, errStopped)
	}
	if _, pause := l.Next(); !pause {
		t.Error("after the end: got no pause, want one, in which waiting requests fail")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = l.dial(ended, "tcp", l.servers[0], time.Minute); err == nil {
		t.Error("dial with an ended context: got no error")
	}
}

// The grant is parsed from the server's answer, however that is cut into pieces.
func TestBoundedConn_ReadsGrant(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	l := &link{conn: &boundedConn{Conn: near, session: time.Minute}}
	defer func() { _ = near.Close() }()
	if got := l.grant(); got != (grant{}) {
		t.Errorf("before the answer: got %v, want none", got)
	}
	answer := binary.BigEndian.AppendUint32(nil, 36)
	answer = binary.BigEndian.AppendUint32(answer, 0)
	answer = binary.BigEndian.AppendUint32(answer, 4000)
	answer = binary.BigEndian.AppendUint64(answer, 1<<63|42)
	answer = append(answer, "password and what follows"...)
	go func() { // ends with the last byte
		_, _ = far.Read(make([]byte, 8))
		for _, b := range answer {
			_, _ = far.Write([]byte{b})
		}
		_ = far.Close()
	}()
	before := time.Now()
	if _, err := l.conn.Write([]byte("connect?")); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 3); ; {
		if _, err := l.conn.Read(buffer); err != nil {
			break
		}
	}
	got := l.grant()
	if want := -1<<63 + 42; got.id != int64(want) || got.timeout != 4*time.Second {
		t.Errorf("got id %d, time-out %v, want %d, 4s", got.id, got.timeout, want)
	}
	if got.asked.Before(before) || got.asked.After(time.Now()) {
		t.Errorf("got asked at %v, want the time of the first write", got.asked)
	}
}

// A read without a deadline, or with a distant one, still ends.
func TestBoundedConn_NoWaitIsEndless(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	c := &boundedConn{Conn: near, session: 10 * time.Millisecond}
	for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := c.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read with deadline %v: got error %v, want a time-out", deadline, err)
		}
	}
	if err := c.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: got error %v, want a time-out", err)
	}
}

// deadlines records the read deadline, and reads answer, then zeros.
type deadlines struct {
	net.Conn
	read   time.Time
	answer []byte
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = t
	return nil
}

func (d *deadlines) Read(b []byte) (int, error) {
	d.answer = d.answer[copy(b, d.answer):]
	return len(b), nil
}

// A client that has another server leaves a silent one after a third of its session, and after a second if the answer to
// the connect request is missing; only after several rounds does a connect request get more time. A client
// with a single server waits as long as its session allows.
func TestBoundedConn_SilenceIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSilence)
}

func testSilence(t *testing.T) {
	t.Helper()
	const requested, granted = 12 * time.Second, 6 * time.Second
	for name, c := range map[string]struct {
		conn              *boundedConn
		connecting, later time.Duration
	}{
		"several": {&boundedConn{}, time.Second, 2 * time.Second},
		"patient": {&boundedConn{patient: true}, 6 * time.Second, 2 * time.Second},
		"alone":   {&boundedConn{alone: true}, 6 * time.Second, 6 * time.Second},
	} {
		noted := &deadlines{}
		conn := c.conn
		conn.Conn, conn.session = noted, requested
		left := func() time.Duration {
			if err := conn.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			return time.Until(noted.read)
		}
		if got := left(); got != c.connecting {
			t.Errorf("%s, before the answer: got %v, want %v", name, got, c.connecting)
		}
		noted.answer = binary.BigEndian.AppendUint32(make([]byte, 8), uint32(granted.Milliseconds()))
		if _, err := conn.Read(make([]byte, answerBytes)); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != c.later {
			t.Errorf("%s, after it: got %v, want %v", name, got, c.later)
		}
	}
}

// The time for a connect request grows only after all servers have been tried several times.
func TestLink_LaterRoundsArePatient(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	server := listener.Addr().String()
	l := &link{servers: []string{server, server}, session: time.Minute}
	for tried := range hastyRounds*len(l.servers) + 1 {
		_, _ = l.Next()
		conn, err := l.dial(t.Context(), "tcp", server, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if want := tried == hastyRounds*len(l.servers); l.conn.patient != want || l.conn.alone {
			t.Errorf("try %d: got patient %v, alone %v, want %v, false", tried, l.conn.patient, l.conn.alone, want)
		}
	}
}
