package route

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/testenv"
)

func instances(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.0.%d:8088", i+1))
	}
	return list
}

// When one of seven instances is removed, only its goods move, and these are not many more than a seventh.
func TestPreference_RemovedInstance_OnlyItsGoodsMove(t *testing.T) {
	const goods = 10_000
	seven, owned, moved := instances(7), map[string]int{}, 0
	for i := range goods {
		key := fmt.Sprint("/goods/", i)
		before, after := preference(key, seven)[0], preference(key, seven[1:])[0]
		owned[before]++
		if before != after {
			moved++
		}
		if before != after && before != seven[0] {
			t.Fatalf("%s moved from %s to %s, want only the goods of %s moved", key, before, after, seven[0])
		}
	}
	if moved == 0 || moved*7 > goods*3/2 {
		t.Errorf("got %d of %d goods moved, want at most 1.5/7", moved, goods)
	}
	for _, instance := range seven {
		if float64(owned[instance])*7 > maxLoad*goods {
			t.Errorf("%s has %d of %d goods, want at most %v times the average", instance, owned[instance], goods, maxLoad)
		}
	}
}

// However popular goods are, no instance has more than 1.25 times the average of the requests in flight.
func TestRouter_PopularGoods_LoadIsBounded(t *testing.T) {
	r := &router{instances: instances(7), load: map[string]int{}}
	for range 700 {
		r.begin(preference("/goods/1", r.instances))
	}
	for instance, n := range r.load {
		if n > 125 {
			t.Errorf("%s has %d of 700 requests, want at most 125", instance, n)
		}
	}
	if first := preference("/goods/1", r.instances)[0]; r.load[first] != 125 {
		t.Errorf("the instance of the goods has %d requests, want 125", r.load[first])
	}
}

// A request goes on to the next instance only if it certainly was not sent, and then with its body. Every failure has the
// status that says whether it may have been done.
func TestRouter_InstanceAway(t *testing.T) {
	gone := &httptest.Server{URL: "http://" + testenv.FreeAddress(t)}
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer breaks.Close()
	echoes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.URL.Path+" "+string(text))
	}))
	defer echoes.Close()
	for _, tt := range []struct {
		name      string
		instances []*httptest.Server
		status    int
		want      string
	}{
		{"Next", []*httptest.Server{gone, echoes}, 200, "/goods/1/orders {}"},
		{"NoneLeft", []*httptest.Server{gone, gone}, 503, "no instance can be reached"},
		{"Unknown", []*httptest.Server{breaks}, 504, "no answer from the instance"},
	} {
		r := &router{load: map[string]int{}, transport: http.DefaultTransport}
		for _, server := range tt.instances {
			r.instances = append(r.instances, strings.TrimPrefix(server.URL, "http://"))
		}
		for range 5 { // An instance that is away keeps no load.
			w := httptest.NewRecorder()
			r.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/goods/1/orders", strings.NewReader("{}")))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || (tt.status == 503) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%s: got %d %s %v, want %d %s", tt.name, w.Code, w.Body, w.Header(), tt.status, tt.want)
			}
		}
		if r.all != 0 {
			t.Errorf("%s: got a load of %d after all answers, want 0", tt.name, r.all)
		}
	}
}

// A request that was sent when its instance died may have been done, although the instance cannot be reached afterwards.
func TestRouter_InstanceDies_IsUnknown(t *testing.T) {
	var dies *httptest.Server
	calls := 0
	dies = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if calls++; calls > 1 { // on a connection that was used before, so that the transport sends the request again
			_ = dies.Listener.Close()
			panic(http.ErrAbortHandler)
		}
	}))
	defer dies.Close()
	r := &router{load: map[string]int{}, transport: &http.Transport{}, instances: []string{strings.TrimPrefix(dies.URL, "http://")}}
	for _, want := range []int{200, 504} {
		w := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/goods/1/orders", http.NoBody)
		request.Header.Set("Idempotency-Key", "k")
		r.handler().ServeHTTP(w, request)
		if w.Code != want {
			t.Errorf("got %d %s, want %d", w.Code, w.Body, want)
		}
	}
}

// An instance whose host is off, so that it does not even refuse connections, delays a request by a second.
func TestRouter_HostOff_NextInstance(t *testing.T) {
	testenv.SilentHosts(t)
	synctest.Test(t, func(t *testing.T) {
		r := &router{load: map[string]int{}, transport: newTransport(), instances: []string{"a.example:80", "b.example:80"}}
		start, w := time.Now(), httptest.NewRecorder()
		r.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/goods/1", http.NoBody))
		if took := time.Since(start); w.Code != http.StatusServiceUnavailable || took != 2*time.Second {
			t.Errorf("got %d after %v, want 503 after a second at each of two instances", w.Code, took)
		}
	})
}
