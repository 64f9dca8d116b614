package main

import (
	"fmt"
	"io"

	"rideshare/system"
)

// greet prints the addresses of the system and what to try. view is the part of the console's address that selects the
// view that the console opens with.
func (u *upCommand) greet(w io.Writer, urls system.URLs, view string) error {
	_, err := fmt.Fprintf(w, `rideshare is ready
  gateway       %[1]s
  users         %[2]s
  rides         %[3]s
  orchestrator  %[4]s
  console       %[4]s/%[5]s in a browser
  data          %[6]s

try:
  rideshare status --watch %[4]s
  curl -i -X PUT %[1]s/api/v1/users \
  -d '{"username":"ann","password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}'
  curl -i %[1]s/api/v1/users

`, urls.Gateway, urls.Users, urls.Rides, urls.Orchestrator, view, u.Data)
	if err != nil || !isTerminal(w) {
		return err
	}
	_, err = fmt.Fprintf(w, "Ctrl-C stops the system. Below is its log, from level %s on (--log-level).\n\n", u.LogLevel)
	return err
}

// farewell prints on a terminal that the system has stopped.
func (u *upCommand) farewell(w io.Writer) error {
	if !isTerminal(w) {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nrideshare has stopped; its data are in %s\n", u.Data)
	return err
}
