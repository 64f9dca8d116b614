package main

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/rides"
)

// common holds the settings of every part that runs.
type common struct {
	AuthFile string `default:"" placeholder:"FILE" env:"AUTH_FILE" group:"Access:" help:"File of credentials, a line each: 'user NAME ROLE HASH' or 'token NAME ROLE sha256:HEX', as 'rideshare user' makes them, or, for the role admin, 'bearer TOKEN' or 'basic USER:PASSWORD'. None: no authentication. Changes count within 5 s, and at once at SIGHUP."`
	hosts    `group:"Access:"`
	logging  `group:"Log:"`
}

// memory is the setting of every part that buffers requests.
type memory struct {
	RequestMemory int64 `name:"request-memory-mib" default:"0" env:"REQUEST_MEMORY_MIB" help:"MiB of large request bodies and answers that are held at once; a request that finds no room within a second is refused with 503. At least 64. Default: a quarter of GOMEMLIMIT, as each byte is also in a message and on its way, but 64 to 256; 256 without GOMEMLIMIT."`
}

// budget returns the bound of the memory of all requests. A body of the largest size must fit.
func (m memory) budget() (*httpapi.Budget, error) {
	const mib, least = 1 << 20, 64 << 20
	bytes := m.RequestMemory * mib
	switch {
	case m.RequestMemory == 0 && os.Getenv("GOMEMLIMIT") == "":
		bytes = httpapi.DefaultMemory
	case m.RequestMemory == 0:
		bytes = min(max(debug.SetMemoryLimit(-1)/4, least), httpapi.DefaultMemory)
	case bytes < least:
		return nil, usagef("REQUEST_MEMORY_MIB: %d is not at least %d", m.RequestMemory, least/mib)
	}
	return httpapi.NewBudget(bytes), nil
}

// hosts is the setting of every part that listens.
type hosts struct {
	AllowedHosts []string `placeholder:"NAME" env:"ALLOWED_HOSTS" help:"Host names, besides localhost and addresses, by which the part may be called, separated by commas. Requests under any other name are refused, since a web page can give its own name this machine's address. Default: on a loopback address none, elsewhere all."`
}

// rideRules holds the settings of the rides service that have the same names in every mode.
type rideRules struct {
	RidesClock     string `default:"" placeholder:"TIME" env:"RIDES_CLOCK" help:"RFC 3339 time at which the clock of the rides service starts. Default: the real time."`
	RidesTimezone  string `default:"Asia/Kolkata" env:"RIDES_TIMEZONE" help:"Time zone of ride timestamps (${default})."`
	RidesUserCheck string `default:"lookup" enum:"lookup,list" env:"RIDES_USER_CHECK" help:"How rides asks for a user: lookup (only that user) or list (all users, as the course demands) (${default})."`
	RidesOrigin    string `default:"" placeholder:"URL" env:"RIDES_ORIGIN" help:"Origin header of those requests. Default: the rides service's own address."`
}

// calendar returns the clock and the time zone of the rides service.
type calendar struct {
	now  func() time.Time
	zone *time.Location
}

func (r rideRules) rules() (calendar, error) {
	now, clockErr := rides.Clock(time.Now, r.RidesClock)
	if clockErr != nil {
		clockErr = fmt.Errorf("RIDES_CLOCK: %w", clockErr)
	}
	zone, zoneErr := rides.Location(r.RidesTimezone)
	if zoneErr != nil {
		zoneErr = fmt.Errorf("RIDES_TIMEZONE: %w", zoneErr)
	}
	return calendar{now: now, zone: zone}, joinUsage(clockErr, zoneErr)
}

// checkAddress rejects addresses that are invalid for listening.
func checkAddress(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("%s: %q is no listen address such as 127.0.0.1:8080 or 127.0.0.1:0", flag, addr)
	}
	return nil
}
