package main

import (
	"bytes"
	"context"
	"net/http"
	"os"

	"rideshare/internal/httpapi"
)

// clientSettings are the settings of the commands that call the HTTP API.
type clientSettings struct {
	AuthFile string `default:"" placeholder:"FILE" env:"AUTH_FILE" help:"File of credentials, as for up; its first 'bearer' or 'basic' line is sent."`
	User     string `default:"" placeholder:"NAME" env:"RIDESHARE_USER" help:"User, instead of --auth-file. The password is RIDESHARE_PASSWORD, or is asked for."`
}

const envPassword = "RIDESHARE_PASSWORD"

// authorization returns the Authorization header to send, "" without credentials. It may ask for the password.
func (c clientSettings) authorization(ctx context.Context, out *output) (string, error) {
	if c.User != "" && (out.given("--user") || !out.given("--auth-file")) {
		if err := httpapi.CheckName(c.User); err != nil {
			return "", usagef("--user: %v", err)
		}
		password := os.Getenv(envPassword)
		if password == "" {
			var err error
			if password, err = askPassword(ctx, out.stderr, "Password of "+c.User+": "); err != nil {
				return "", usagef("--user: %v; set %s", err, envPassword)
			}
		}
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(c.User, password)
		return r.Header.Get("Authorization"), nil
	}
	if c.AuthFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.AuthFile)
	if err != nil {
		return "", usagef("AUTH_FILE: %v", err)
	}
	header, err := httpapi.ReadAuthorization(bytes.NewReader(text))
	if err != nil {
		return "", usagef("AUTH_FILE %s: %v; or give --user", c.AuthFile, err)
	}
	return header, nil
}
