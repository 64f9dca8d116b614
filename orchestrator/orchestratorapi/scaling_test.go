package orchestratorapi_test

import (
	"context"
	"net/http"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
	"rideshare/orchestrator/scale"
)

// fakeScaling answers with the change that it is asked for.
type fakeScaling struct{}

func (fakeScaling) Current(context.Context) (scale.Current, error) {
	return scale.Current{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 8, ReadsPerSlave: 20}, Period: 120}, nil
}

func (f fakeScaling) Apply(ctx context.Context, change scale.Change, dry bool) (scale.Current, []scale.Would, error) {
	now, _ := f.Current(ctx)
	if change.Version != nil && *change.Version != 0 {
		return now, nil, dbaas.Errorf(dbaas.CodeConflict, "changed")
	}
	if change.Max != nil {
		now.Max = *change.Max
	}
	if !dry {
		now.Version++
	}
	return now, []scale.Would{}, nil
}

// The limits are shown and changed; a dry run is passed on as such. Bodies are strict.
func TestScaling_ShownAndChanged(t *testing.T) {
	h := newAPI(&system{}, func(c *orchestratorapi.Config) { c.Scaling = fakeScaling{} })
	const path = "/api/v1/scaling"
	want(t, call(t, h, "GET", path, ""), http.StatusOK, `{"policy":"reads","min":1,"max":8,"reads_per_slave":20,"version":0,"period_s":120}`)
	want(t, call(t, h, "PATCH", path, `{"max":3,"version":0}`), http.StatusOK, `{"settings":{"policy":"reads","min":1,"max":3,"reads_per_slave":20,"version":1,"period_s":120},"changed":true,"would":[]}`)
	want(t, call(t, h, "PATCH", path+"?dry_run", `{"max":3}`), http.StatusOK, `{"settings":{"policy":"reads","min":1,"max":3,"reads_per_slave":20,"version":0,"period_s":120},"changed":false,"would":[]}`)
	want(t, call(t, h, "PATCH", path+"?dry_run=%zz", `{"max":3}`), http.StatusBadRequest, "")
	want(t, call(t, h, "PATCH", path, `{"version":7}`), http.StatusConflict, "")
	for _, body := range []string{``, `[]`, `{"max":"3"}`, `{"slaves":3}`} {
		want(t, call(t, h, "PATCH", path, body), http.StatusBadRequest, "")
	}
}
