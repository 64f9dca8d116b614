package console

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

// givenEnv names a file in the form of the ready file of `up`, with the addresses of a running system. Tests that call anywhere
// then run on that system, and clear its database.
const givenEnv = "RIDESHARE_CONSOLE_READY"

// site has the addresses of a system, and an admin's credentials if the system requires them.
type site struct {
	Gateway, Orchestrator string
	Token                 string
}

// given returns the given system, or nil.
func given() (*site, error) {
	file := os.Getenv(givenEnv)
	if file == "" {
		return nil, nil //nolint:nilnil // none is a good answer.
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", givenEnv, err)
	}
	s := &site{}
	if err = json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", givenEnv, file, err)
	}
	// tests/containers tests certificates. Here the browser would have to trust them first.
	http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return s, nil
}

// anywhere returns the given system, with an empty database, or an embedded system. All its workers serve.
func anywhere(t *testing.T) *site {
	t.Helper()
	s, err := given()
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		urls := start(t, "").URLs()
		s = &site{Gateway: urls.Gateway, Orchestrator: urls.Orchestrator}
	} else {
		s.call(t, http.MethodPost, "/api/v1/db/clear", "")
	}
	s.whole(t)
	return s
}

// call makes a call of the orchestrator that must be answered with status 200, and returns the body of the answer.
func (s *site) call(t *testing.T, method, path, body string) string {
	t.Helper()
	var headers []string
	if s.Token != "" {
		headers = []string{"Authorization", "Bearer " + s.Token}
	}
	got := apitest.Do(t, method, s.Orchestrator+path, body, headers...)
	if got.Status != http.StatusOK {
		t.Fatalf("%s %s: got %d %s, want 200", method, path, got.Status, got.Body)
	}
	return got.Body
}

// open shows a view of the console, signed in.
func (s *site) open(t *testing.T, view string) *page {
	t.Helper()
	p := newPage(t, s.Orchestrator)
	p.token = s.Token
	p.load(view)
	return p
}

type member struct {
	PID       int
	Role      string
	Container string
	Ready     bool
}

// whole waits until a master and all wanted slaves serve, none of them with a pid in gone, and returns them, the master first.
func (s *site) whole(t *testing.T, gone ...int) []member {
	t.Helper()
	var members []member
	testenv.Eventually(t, patience, func() error {
		var got struct {
			Members []member
			Desired int `json:"desired_slaves"`
		}
		text := s.call(t, http.MethodGet, "/api/v1/cluster", "")
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return err
		}
		members = got.Members
		if len(members) != 1+got.Desired || slices.ContainsFunc(members, func(m member) bool { return !m.Ready || slices.Contains(gone, m.PID) }) {
			return errors.New(text)
		}
		if i := slices.IndexFunc(members, func(m member) bool { return m.Role == "master" }); i >= 0 {
			members[0], members[i] = members[i], members[0]
			return nil
		}
		return errors.New(text)
	})
	return members
}
