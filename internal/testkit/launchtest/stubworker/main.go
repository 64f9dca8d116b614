// Command stubworker is a launchtest.StubWorker that listens where a worker does.
// It is built statically, for tests with an image that has no shell.
package main

import (
	"fmt"
	"net"
	"os"

	"rideshare/internal/testkit/launchtest"
)

func main() {
	listener, err := net.Listen("tcp", os.Getenv("WORKER_LISTEN"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := launchtest.StubWorker(listener)
	fmt.Fprintln(os.Stderr, "stub ends with", code)
	os.Exit(code)
}
