package system

import (
	"slices"
	"testing"
)

// Workers in containers are told that their network is private exactly if the launcher was.
func TestDocker_HandsOnThatTheNetworkIsPrivate(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		d := &Docker{PrivateNetwork: private}
		if env := d.env(Config{}); slices.Contains(env, "PRIVATE_NETWORK=true") != private {
			t.Errorf("private %v: got %v", private, env)
		}
	}
}
