package testenv_test

import (
	"net"
	"strconv"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// A process can listen at the address, and the kernel does not give its port to others.
func TestFreeAddress(t *testing.T) {
	address := testenv.FreeAddress(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err = listener.Close(); err != nil {
		t.Error(err)
	}
	_, text, err := net.SplitHostPort(address)
	if port, convErr := strconv.Atoi(text); err != nil || convErr != nil || port >= 32768 {
		t.Errorf("got %s (%v, %v), want a port that no connection gets", address, err, convErr)
	}
}

// No address is given twice while the test runs, although nobody listens yet. By chance some would be.
func TestFreeAddress_GivenOnce(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		address := testenv.FreeAddress(t)
		if given[address] {
			t.Fatalf("%s was given twice", address)
		}
		given[address] = true
	}
}
