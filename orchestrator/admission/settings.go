package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

// Settings are the settings of all stages, as GET and PATCH /api/v1/admission show them.
type Settings struct {
	// Inflight is how many requests may be in flight. A user may have three quarters of them.
	Inflight     int           `json:"inflight"`
	EventBreaker EventSettings `json:"event_breaker"`
	Depth        DepthSettings `json:"depth"`
	Limits       LimitSettings `json:"limits"`
	Lanes        LaneSettings  `json:"lanes"`
	// Breakers are auto, open or closed, by name.
	Breakers BreakerSettings `json:"breakers"`
}

// EventSettings choose the event-count breaker: none or the name of a preset.
type EventSettings struct {
	Preset string `json:"preset"`
}

// DepthSettings are the settings of DepthRule.
type DepthSettings struct {
	Wait int `json:"wait"`
	Open int `json:"open"`
}

// LimitSettings are the limits of each user and, in the fields with Total, of all users together. ParseLimit reads
// them.
type LimitSettings struct {
	// Mode is local or shared.
	Mode       string `json:"mode"`
	Read       string `json:"read"`
	Write      string `json:"write"`
	Async      string `json:"async"`
	ReadTotal  string `json:"read_total"`
	WriteTotal string `json:"write_total"`
	AsyncTotal string `json:"async_total"`
}

// LaneSettings are the limits of the lanes and the weights of users. ParseWeights reads the weights.
type LaneSettings struct {
	Read    LaneSetting `json:"read"`
	Write   LaneSetting `json:"write"`
	Weights string      `json:"weights"`
}

// Lanes are LaneSettings in the form that the dispatcher needs.
type Lanes struct {
	Read, Write LaneSetting
	// Weights has the users whose weight is not 1.
	Weights map[string]int
}

// BreakerSettings hold each breaker open or closed, or leave it automatic.
type BreakerSettings struct {
	Event  string `json:"event"`
	Depth  string `json:"depth"`
	Broker string `json:"broker"`
	Master string `json:"master"`
	Slaves string `json:"slaves"`
}

// The values of LimitSettings.Mode and of BreakerSettings.
const (
	Local  = "local"
	Shared = "shared"
	Auto   = "auto"
)

// Defaults returns the default settings. With them clients notice admission only under overload.
func Defaults() Settings {
	return Settings{
		Inflight: 4096, EventBreaker: EventSettings{None}, Depth: DepthSettings{5000, 10000},
		Limits:   LimitSettings{Local, None, None, None, None, None, None},
		Lanes:    Lanes{}.Settings(),
		Breakers: BreakerSettings{Auto, Auto, Auto, Auto, Auto},
	}
}

// delayMargin is by how much the call timeout must exceed the interval of a breaker that makes operations wait.
const delayMargin = 500 * time.Millisecond

// rules are the settings, compiled for the stages.
type rules struct {
	inflight int
	event    EventRule
	events   bool // there is an event-count breaker
	depth    DepthRule
	user     [classes]Limit
	total    [classes]Limit
	limited  bool
	shared   bool
	lanes    Lanes
}

// compile checks the settings and returns their rules. callTimeout is the timeout of an operation. The error names each
// invalid setting.
func (s Settings) compile(callTimeout time.Duration) (r rules, err error) {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	r.inflight, r.depth = s.Inflight, DepthRule{s.Depth.Wait, s.Depth.Open}
	check(s.Inflight >= 1, "inflight: %d is not at least 1", s.Inflight)
	check(s.Depth.Wait >= 1 && s.Depth.Wait <= s.Depth.Open, "depth: wait (%d) is not between 1 and open (%d)", s.Depth.Wait, s.Depth.Open)
	r.event, r.events = presets[s.EventBreaker.Preset]
	check(r.events || s.EventBreaker.Preset == None, "event_breaker.preset: %q is not one of none, %s", s.EventBreaker.Preset, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	if r.event.Delay {
		check(callTimeout >= r.event.Interval+delayMargin, "event_breaker.preset: %s makes operations wait and needs a CALL_TIMEOUT of at least %v, not %v", s.EventBreaker.Preset, r.event.Interval+delayMargin, callTimeout)
	}
	check(s.Limits.Mode == Local || s.Limits.Mode == Shared, "limits.mode: %q is neither local nor shared", s.Limits.Mode)
	r.shared = s.Limits.Mode == Shared
	for i, text := range s.Limits.texts() {
		limit, parseErr := ParseLimit(*text)
		check(parseErr == nil, "limits: %w", parseErr)
		if i < classes {
			r.user[i] = limit
		} else {
			r.total[i-classes] = limit
		}
		r.limited = r.limited || limit.Rate > 0
	}
	weights, weightsErr := ParseWeights(s.Lanes.Weights)
	check(weightsErr == nil, "lanes.weights: %w", weightsErr)
	r.lanes = Lanes{Read: s.Lanes.Read, Write: s.Lanes.Write, Weights: weights}
	for _, b := range s.Breakers.texts() {
		check(*b == Auto || *b == Open.String() || *b == Closed.String(), "breakers: %q is none of auto, open, closed", *b)
	}
	return r, errors.Join(errs...)
}

// texts returns the limits of the users by class, then those of all users.
func (l *LimitSettings) texts() []*string {
	return []*string{&l.Read, &l.Write, &l.Async, &l.ReadTotal, &l.WriteTotal, &l.AsyncTotal}
}

func (b *BreakerSettings) texts() []*string {
	return []*string{&b.Event, &b.Depth, &b.Broker, &b.Master, &b.Slaves}
}

// Check returns an error that names each invalid setting, or nil.
func (s Settings) Check(callTimeout time.Duration) error {
	_, err := s.compile(callTimeout)
	return err
}

// object is a JSON object.
type object = map[string]any

// mergePatch returns target with patch merged into it (RFC 7396). It changes neither.
func mergePatch(target, patch object) object {
	out := maps.Clone(target)
	if out == nil {
		out = object{}
	}
	for name, value := range patch {
		inner, nested := value.(object)
		switch {
		case value == nil:
			delete(out, name)
		case nested:
			old, _ := out[name].(object)
			out[name] = mergePatch(old, inner)
		default:
			out[name] = value
		}
	}
	return out
}

// parsePatch reads a merge patch, which is an object. Errors are CodeInvalid.
func parsePatch(text []byte) (object, error) {
	err := strictjson.Read(text, func(r *strictjson.Reader) error {
		_, err := r.Literal() // any value without duplicate keys
		return err
	})
	if err != nil {
		return nil, err
	}
	var patch object
	if err = json.Unmarshal(text, &patch); err != nil || patch == nil {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "the body is a JSON object with the settings to change")
	}
	return patch, nil
}

// checkNames returns an error if patched has a name that known lacks, at any level. The JSON decoder cannot check that:
// it accepts "Inflight" for "inflight".
func checkNames(patched, known object) error {
	for _, name := range slices.Sorted(maps.Keys(patched)) {
		value, ok := known[name]
		if !ok {
			return dbaas.Errorf(dbaas.CodeInvalid, "unknown field %q", name)
		}
		inner, nested := patched[name].(object)
		names, group := value.(object)
		if !nested || !group {
			continue // the decoder checks the type
		}
		if err := checkNames(inner, names); err != nil {
			return err
		}
	}
	return nil
}

// with returns the settings, overridden by those in patched. Errors are CodeInvalid: an unknown setting, or a value of
// the wrong type.
func (s Settings) with(patched object) (Settings, error) {
	if err := checkNames(patched, asObject(s)); err != nil {
		return s, err
	}
	text, err := json.Marshal(patched)
	if err != nil {
		return s, dbaas.WrapError(dbaas.CodeInvalid, "the settings cannot be kept", err)
	}
	if err = json.Unmarshal(text, &s); err != nil {
		return s, dbaas.Errorf(dbaas.CodeInvalid, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return s, nil
}
