package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// settingsName is the name of the coordinator's value that holds the Settings.
const settingsName = "scalingsettings"

// MostSlaves bounds Settings.Max, so that a typing error does not start thousands of workers.
const MostSlaves = 1000

// Settings are the policy and its limits. If the coordinator stores Settings, all orchestrators use them.
type Settings struct {
	Policy string `json:"policy"` // the name of the Policy that decides
	Min    int    `json:"min"`
	Max    int    `json:"max"`
	// ReadsPerSlave is Reads.PerSlave.
	ReadsPerSlave int `json:"reads_per_slave"`
}

// Check returns CodeInvalid with the first thing that is wrong with s.
func (s Settings) Check() error {
	switch {
	case !slices.Contains(s.names(), s.Policy):
		return dbaas.Errorf(dbaas.CodeInvalid, "policy must be one of %q", s.names())
	case s.Min < 1 || s.Min > s.Max:
		return dbaas.Errorf(dbaas.CodeInvalid, "min must be between 1 and max")
	case s.Max > MostSlaves:
		return dbaas.Errorf(dbaas.CodeInvalid, "max must be at most %d", MostSlaves)
	case s.ReadsPerSlave < 1:
		return dbaas.Errorf(dbaas.CodeInvalid, "reads_per_slave must be at least 1")
	}
	return nil
}

// Policies returns all policies, with the limits of s. The first one is s.Policy, which decides.
func (s Settings) Policies() []Policy {
	limits := Limits{Min: s.Min, Max: s.Max}
	all := []Policy{Reads{PerSlave: s.ReadsPerSlave, Limits: limits}, NewLatency(limits)}
	if s.Policy != all[0].Name() {
		slices.Reverse(all)
	}
	return all
}

func (s Settings) names() []string {
	var names []string
	for _, p := range s.Policies() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

// Change is a requested change of Settings. A nil field leaves its setting as it is.
type Change struct {
	Policy        *string `json:"policy,omitempty"`
	Min           *int    `json:"min,omitempty"`
	Max           *int    `json:"max,omitempty"`
	ReadsPerSlave *int    `json:"reads_per_slave,omitempty"`
	// Version, if set, is the version that the present settings must have.
	Version *coord.Version `json:"version,omitempty"`
}

func (c Change) of(s Settings) Settings {
	set := func(field *int, value *int) {
		if value != nil {
			*field = *value
		}
	}
	if c.Policy != nil {
		s.Policy = *c.Policy
	}
	set(&s.Min, c.Min)
	set(&s.Max, c.Max)
	set(&s.ReadsPerSlave, c.ReadsPerSlave)
	return s
}

// Current is the Settings in force. Version is zero while they come from the configuration.
type Current struct {
	Settings
	Version coord.Version `json:"version"`
	Period  float64       `json:"period_s"`
}

// Would is what other Settings would have decided about a window.
type Would struct {
	At     time.Time `json:"at"`
	Count  int       `json:"count"`
	Was    int       `json:"was"`
	Wanted int       `json:"wanted"`
	Why    string    `json:"why"`
}

// Current returns the settings that the next decision uses. The error is CodeUnavailable: the coordinator is away.
func (s *Scaler) Current(ctx context.Context) (Current, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	settings, version, err := s.settings(ctx)
	if err != nil {
		return Current{}, dbaas.WrapError(dbaas.CodeUnavailable, "the coordinator does not answer", err)
	}
	return Current{settings, version, s.cfg.Period.Seconds()}, nil
}

// Apply changes the settings, for all orchestrators, and brings the wanted number of slaves within the new limits. If dry
// is set, it changes nothing. It returns the new settings, and what they would have decided about the last windows.
//
// CodeInvalid: see Settings.Check. CodeConflict: the settings have changed since change.Version, or during the call.
// CodeUnavailable: the coordinator is away; the change may have been made.
func (s *Scaler) Apply(ctx context.Context, change Change, dry bool) (Current, []Would, error) {
	now, err := s.Current(ctx)
	if err != nil {
		return Current{}, nil, err
	}
	if change.Version != nil && *change.Version != now.Version {
		return Current{}, nil, errChanged()
	}
	now.Settings = change.of(now.Settings)
	if err = now.Check(); err != nil {
		return Current{}, nil, err
	}
	if !dry {
		if err = s.store(ctx, now); err != nil {
			return Current{}, nil, err
		}
		now.Version++
	}
	return now, replay(now.Settings, s.Decisions(ctx)), nil
}

func errChanged() error {
	return dbaas.Errorf(dbaas.CodeConflict, "somebody else has changed the settings: look at them again")
}

// store writes the settings, if they have not changed since they were read. Then it brings the wanted number within the
// limits; if that fails, or this process dies here, the next decision does it.
func (s *Scaler) store(ctx context.Context, c Current) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	data, err := json.Marshal(c.Settings)
	if err != nil {
		return fmt.Errorf("encode scaling settings: %w", err)
	}
	switch err = s.cfg.Cluster.SetValue(ctx, settingsName, data, c.Version); {
	case errors.Is(err, coord.ErrVersion):
		return errChanged()
	case err != nil:
		return dbaas.WrapError(dbaas.CodeUnavailable, "the coordinator did not confirm the change", err)
	}
	s.cfg.Log.InfoContext(ctx, "scaling settings changed", "policy", c.Policy, "min", c.Min, "max", c.Max, "reads_per_slave", c.ReadsPerSlave)
	desired := s.cfg.Cluster.Desired()
	if within := (Limits{Min: c.Min, Max: c.Max}).bound(desired); within != desired && desired > 0 {
		if err = s.cfg.Cluster.SetSlaves(ctx, within); err != nil {
			s.cfg.Log.WarnContext(ctx, "the wanted number of slaves is not within the new limits yet", logkey.Error, err)
		}
	}
	return nil
}

// settings returns the settings in the coordinator or, if it stores none, those of the configuration with version zero.
func (s *Scaler) settings(ctx context.Context) (Settings, coord.Version, error) {
	data, version, err := s.cfg.Cluster.Value(ctx, settingsName)
	if errors.Is(err, coord.ErrNone) {
		return s.cfg.Settings, 0, nil
	}
	if err != nil {
		return Settings{}, 0, fmt.Errorf("read scaling settings: %w", err)
	}
	var stored Settings
	if err = json.Unmarshal(data, &stored); err == nil {
		err = stored.Check()
	}
	if err != nil {
		return Settings{}, 0, fmt.Errorf("scaling settings: %w", err)
	}
	return stored, version, nil
}

// replay returns what the settings would have decided at each decision, from its sample and those before.
func replay(s Settings, decisions []Decision) []Would {
	out := make([]Would, 0, len(decisions))
	policy := s.Policies()[0]
	samples := (&ledger{Decisions: decisions}).samples()
	for i, d := range decisions {
		p := policy.Propose(samples[i], samples[:i])
		out = append(out, Would{At: d.At, Count: d.Count, Was: d.Wanted, Wanted: p.Wanted, Why: p.Why})
	}
	return out
}
