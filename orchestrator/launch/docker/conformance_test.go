package docker_test

import (
	"testing"

	"rideshare/internal/testkit/launchtest"
)

// The launcher of containers keeps every promise of launch.Launcher, on a network of its own
// and on the host's, on a real engine.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Own", "Host"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := engine(t)
			launchtest.Run(t, launchtest.Features{Patience: limit}, func(tb testing.TB) launchtest.World {
				tb.Helper()
				c := b.config(tb)
				if name == "Host" {
					c.Network = "host"
				}
				return b.world(b.launcher(tb, c))
			})
		})
	}
}
