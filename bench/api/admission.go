package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"rideshare/internal/wait"
	"rideshare/orchestrator/admission"
)

// Protection temporarily changes the settings of one orchestrator's protection from overload. It is not safe for
// concurrent use.
type Protection struct {
	Client *Client
	URL    string // of the orchestrator

	before  map[string]admission.Setting // before the first Patch
	changed map[string]bool              // the members that Patch changed, such as lanes
}

// Status returns the state of the protection.
func (p *Protection) Status(ctx context.Context) (admission.Status, error) {
	r := p.Client.Send(ctx, http.MethodGet, p.URL+"/api/v1/admission", nil)
	if r.Failure(http.StatusOK) != "" {
		return admission.Status{}, fmt.Errorf("read the state of the protection from overload (is ADMISSION on?): %v", r)
	}
	return Decode[admission.Status](r)
}

// Patch changes settings by a JSON merge patch.
func (p *Protection) Patch(ctx context.Context, patch map[string]any) error {
	if p.changed == nil {
		status, err := p.Status(ctx)
		if err != nil {
			return err
		}
		p.before, p.changed = status.Settings, map[string]bool{}
	}
	for name := range patch {
		p.changed[name] = true // also if the answer to the request is lost
	}
	return p.send(ctx, patch)
}

// Restore gives the changed settings the values that they had before the first Patch. A setting that had the environment's
// value follows the environment again. Restore retries for up to 10 s.
func (p *Protection) Restore(ctx context.Context) error {
	patch := map[string]any{}
	for path, setting := range p.before {
		name, inner, nested := strings.Cut(path, ".")
		var value any
		if setting.Source == "patch" {
			value = setting.Value
		}
		if !p.changed[name] {
			continue
		} else if !nested {
			patch[name] = value
			continue
		}
		if patch[name] == nil {
			patch[name] = map[string]any{}
		}
		patch[name].(map[string]any)[inner] = value
	}
	if len(patch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for err := p.send(ctx, patch); err != nil; err = p.send(ctx, patch) {
		if !wait.For(ctx, refusedPause) {
			return err
		}
	}
	return nil
}

func (p *Protection) send(ctx context.Context, patch map[string]any) error {
	r := p.Client.Send(ctx, http.MethodPatch, p.URL+"/api/v1/admission", patch)
	if r.Failure(http.StatusOK) != "" {
		return fmt.Errorf("change the settings of the protection from overload: %v", r)
	}
	return nil
}
