package main

import (
	"io"
	"strings"
	"testing"

	"rideshare/examples/flashsale/load"
)

// scene runs a scene with a hundredth of its numbers.
func scene(t *testing.T, name string, services ...string) string {
	t.Helper()
	var text strings.Builder
	args := []string{name, "--service", strings.Join(services, ","), "--database", database(t), "--scale", "0.01", "--orders", "300000", "--connections", "64"}
	if code := load.Main(t.Context(), args, &text, io.Discard); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	return text.String()
}

func TestScene_Burst(t *testing.T) { t.Log(scene(t, "burst", start(t))) }

func TestScene_SameUser(t *testing.T) { t.Log(scene(t, "same-user", start(t), start(t))) }

func TestScene_Expire(t *testing.T) { t.Log(scene(t, "expire", start(t), start(t), start(t))) }

func TestScene_Leases(t *testing.T) {
	t.Setenv(instance, "1")
	t.Log(scene(t, "leases"))
}

func TestScene_Storm(t *testing.T) { t.Log(scene(t, "storm", start(t))) }

func TestScene_Kill(t *testing.T) { t.Log(scene(t, "kill", start(t), start(t))) }
