package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"rideshare/internal/httpapi"
)

// OccupiedError means that the addresses of Parts are in use.
type OccupiedError struct {
	error
	Parts []string
}

// Unwrap returns the errors of listening.
func (e *OccupiedError) Unwrap() error { return e.error }

// listenAt is where a part listens.
type listenAt struct{ part, addr string }

func (s *System) bindOrchestrator(ctx context.Context) error {
	return s.bind(ctx, listenAt{"orchestrator", s.cfg.Orchestrator})
}

func (s *System) bindAll(ctx context.Context) error {
	return s.bind(ctx, listenAt{"gateway", s.cfg.Gateway}, listenAt{"users", s.cfg.Users}, listenAt{"rides", s.cfg.Rides}, listenAt{"orchestrator", s.cfg.Orchestrator})
}

// bind opens the listeners before anything else is started, so that an occupied port costs no epoch and no worker. The
// error names all ports that are occupied, and is an OccupiedError then. Connections wait until their part serves.
func (s *System) bind(ctx context.Context, addresses ...listenAt) error {
	s.bound = map[string]net.Listener{}
	var errs []error
	var occupied []string
	for _, at := range addresses {
		listener, err := httpapi.Listen(ctx, at.addr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at.part, err))
			if errors.Is(err, syscall.EADDRINUSE) {
				occupied = append(occupied, at.part)
			}
			continue
		}
		s.bound[at.part] = listener
		s.onClose(func(context.Context) error {
			_ = listener.Close() // an error: its server has closed it
			return nil
		})
	}
	if occupied != nil {
		return &OccupiedError{errors.Join(errs...), occupied}
	}
	return errors.Join(errs...)
}
