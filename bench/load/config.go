// Package load is `rideshare load`. It sends a mix of requests to a running system according to a plan, checks every
// answer, and watches the number of slaves. At the end it checks that everything acknowledged is there exactly once.
package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/internal/progressbar"
	"rideshare/internal/tlsfiles"
)

// Targets are the base URLs of the system under load, without a path. Each may be several with commas in between: the first that
// answers is used, see api.Client.At.
type Targets struct {
	Users        string `json:"users"`
	Rides        string `json:"rides"`
	Orchestrator string `json:"orchestrator"`
}

// Config says what to run. All fields but Authorization, As, TLS and Clean are required.
type Config struct {
	Targets Targets
	// Authorization is sent with requests for which the orchestrator requires credentials.
	Authorization string
	// As is the user's label on requests to an orchestrator that requires no credentials; empty: no label.
	As string
	// TLS is what the client trusts and presents; nil means the system's CAs.
	TLS         *tlsfiles.Files
	Mix         Mix
	Plan        loadgen.Plan
	Loop        loadgen.Loop
	MaxInFlight int
	// Timeout is how long a request waits for its answer.
	Timeout time.Duration
	// Users is how many users the preparation creates; they create and join rides.
	Users int
	// Seed makes the sequence of kinds, users and rides the same in each run. Which rides exist at a given point still
	// depends on the answers.
	Seed uint64
	// Clean removes at the end everything that the run has written.
	Clean bool
	// Progress shows the state of the run.
	Progress progressbar.Output
}

// The kinds of requests.
const (
	kindCreateUser = "create-user"
	kindCreateRide = "create-ride"
	kindJoin       = "join"
	kindListing    = "listing"
	kindRide       = "ride"
	kindRead       = "db-read"
	kindWrite      = "db-write"
)

// kinds is every kind, in the order of the reports.
var kinds = []string{kindCreateUser, kindCreateRide, kindJoin, kindListing, kindRide, kindRead, kindWrite}

// DefaultMix is mostly reads. It creates few users: hashing a password is slow by design and would dominate the
// measurement.
const DefaultMix = "create-user=1,create-ride=9,join=10,listing=20,ride=25,db-read=25,db-write=10"

// Mix is the share of each kind in percent.
type Mix map[string]int

// ParseMix reads comma-separated KIND=PERCENT pairs. The error says what is wrong and what is allowed.
func ParseMix(text string) (Mix, error) {
	mix := Mix{}
	sum := 0
	for part := range strings.SplitSeq(text, ",") {
		kind, share, _ := strings.Cut(strings.TrimSpace(part), "=")
		percent, err := strconv.Atoi(share)
		if err != nil || percent < 0 || percent > 100 || !slices.Contains(kinds, kind) {
			return nil, fmt.Errorf("%q is not KIND=PERCENT; the kinds: %s", part, strings.Join(kinds, ", "))
		}
		if _, twice := mix[kind]; twice {
			return nil, fmt.Errorf("%s is there twice", kind)
		}
		mix[kind] = percent
		sum += percent
	}
	if sum != 100 {
		return nil, fmt.Errorf("the shares add up to %d percent, not to 100", sum)
	}
	return mix, nil
}

// pick returns the kind at a percentage from 0 to 99.
func (m Mix) pick(at int) string {
	for _, kind := range kinds {
		if at < m[kind] {
			return kind
		}
		at -= m[kind]
	}
	return kinds[0] // not reached: the shares add up to 100.
}
