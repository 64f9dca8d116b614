// Command stubworker is a launchtest.StubWorker that listens where a worker does,
// for tests with an image: static and without a shell around it.
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
