package main

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/reload"
	"rideshare/internal/telemetry"
	"rideshare/internal/tracing"
)

// The kinds of files that are reloaded while a part runs.
const (
	filesCredentials = "credentials"
	filesTLS         = "tls"
)

// credentials reads a file of credentials that follow keeps current. It returns nil without a file.
func (o *output) credentials(setting, file string) (*httpapi.Credentials, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil is valid: without a file, no credentials are required
	}
	var creds *httpapi.Credentials
	w := &reload.Watcher{What: filesCredentials, Paths: []string{file}, Apply: func(contents [][]byte) (err error) {
		if creds != nil {
			return creds.Replace(contents[0])
		}
		creds, err = httpapi.ParseCredentials(bytes.NewReader(contents[0]))
		return err
	}}
	if err := w.Load(); err != nil {
		return nil, usagef("%s %s: %v", setting, file, err)
	}
	o.watched = append(o.watched, w)
	return creds, nil
}

// follow applies changes of the files that were read so far, until ctx ends, and turns tracing on if it is configured. A
// process calls it once.
func (o *output) follow(ctx context.Context, log *slog.Logger) error {
	observe, err := telemetry.NewReloads(o.metrics, filesCredentials, filesTLS)
	if err != nil {
		return err
	}
	if err = telemetry.Register(o.metrics, telemetry.Expiry(o.tls.Expires)); err != nil {
		return err
	}
	if end := o.tls.Expires(); o.tls.Serves() && time.Now().After(end) {
		log.WarnContext(ctx, "the certificate has expired, callers will refuse it", logkey.Files, filesTLS, "expired", end)
	}
	for _, w := range o.watched {
		go w.Run(ctx, log, observe)
	}
	end, err := tracing.Open(ctx, "rideshare-"+o.part, log)
	if err != nil {
		return err
	}
	o.endTraces = end
	return nil
}
