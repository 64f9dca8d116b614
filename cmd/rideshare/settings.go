package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"rideshare/internal/dbclient"
	"rideshare/orchestrator/api"
	"rideshare/rides"
)

// common is the settings of every part that runs.
type common struct {
	LogLevel string `default:"info" enum:"debug,info,warn,error" env:"LOG_LEVEL" help:"Lowest level that is logged: debug, info, warn or error (${default})."`
	AuthFile string `default:"" placeholder:"FILE" env:"AUTH_FILE" help:"File of credentials, a line each: 'bearer TOKEN' or 'basic USER:PASSWORD'. None: no authentication."`
}

// authorization is what AUTH_FILE says: who is let in, and as whom users and
// rides come.
type authorization struct {
	accepted *api.Credentials
	own      string
}

// auth reads AUTH_FILE. Without one everything is open; the orchestrator says so.
func (c common) auth() (authorization, error) {
	if c.AuthFile == "" {
		return authorization{}, nil
	}
	text, err := os.ReadFile(c.AuthFile)
	if err != nil {
		return authorization{}, usagef("AUTH_FILE: %v", err)
	}
	accepted, err := api.ParseCredentials(bytes.NewReader(text))
	if err != nil {
		return authorization{}, usagef("AUTH_FILE %s: %v", c.AuthFile, err)
	}
	own, err := dbclient.Credentials(bytes.NewReader(text))
	if err != nil {
		return authorization{}, usagef("AUTH_FILE %s: %v", c.AuthFile, err)
	}
	return authorization{accepted: accepted, own: own}, nil
}

// rideRules is the settings of the rides service that keep their names in every mode.
type rideRules struct {
	RidesClock     string `default:"" placeholder:"TIME" env:"RIDES_CLOCK" help:"RFC 3339 time that the rides service takes for now at its start; its clock runs on from there. Default: the real time."`
	RidesTimezone  string `default:"Asia/Kolkata" env:"RIDES_TIMEZONE" help:"Time zone of ride timestamps (${default})."`
	RidesUserCheck string `default:"lookup" enum:"lookup,list" env:"RIDES_USER_CHECK" help:"How rides asks for a user: lookup (that one) or list (all, as the course demands) (${default})."`
	RidesOrigin    string `default:"" placeholder:"URL" env:"RIDES_ORIGIN" help:"Origin header of those requests. Default: the rides service's own address."`
}

// calendar is the clock and the time zone of the rides service.
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

// checkAddress refuses what can never be listened on.
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
