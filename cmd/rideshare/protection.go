package main

import (
	"time"

	"rideshare/orchestrator/admission"
)

// protection holds the settings that protect the orchestrator from overload.
type protection struct {
	Admission       string `default:"on" enum:"on,off" env:"ADMISSION" help:"Protection from overload, on or off: breakers, limits and GET /api/v1/admission. Off leaves only the bounds of the queues (${default})."`
	Inflight        int    `default:"4096" env:"INFLIGHT" help:"Database requests in flight; one user has at most three quarters of them (${default})."`
	EventBreaker    string `default:"none" env:"EVENT_BREAKER" help:"Breaker by the number of writes: none, 2000-2s (more than 2000 in 2s make writes wait), 7500-5s or 10000-5s (they are refused) (${default})."`
	DepthWait       int    `default:"5000" env:"DEPTH_WAIT" help:"Writes in the queue above which a write waits up to 1.5 s, and is then refused (${default})."`
	DepthOpen       int    `default:"10000" env:"DEPTH_OPEN" help:"Writes in the queue above which all writes are refused for 2 s (${default})."`
	LimitMode       string `default:"local" enum:"local,shared" env:"LIMIT_MODE" help:"Scope of the limits: local (each orchestrator has the whole limit) or shared (all orchestrators together have it) (${default})."`
	LimitRead       string `default:"none" env:"LIMIT_READ" help:"Reads of each user: none, RATE:BURST or RATE:BURST:INITIAL (requests a second, the most at once, and of those at the start), steady-5000 (5000:5000) or flash-1000 (1000:500000:50000) (${default})."`
	LimitWrite      string `default:"none" env:"LIMIT_WRITE" help:"Writes of each user, in the same form (${default})."`
	LimitAsync      string `default:"none" env:"LIMIT_ASYNC" help:"Writes of each user whose results are not waited for (${default})."`
	LimitReadTotal  string `default:"none" env:"LIMIT_READ_TOTAL" help:"Reads of all users together (${default})."`
	LimitWriteTotal string `default:"none" env:"LIMIT_WRITE_TOTAL" help:"Writes of all users together (${default})."`
	LimitAsyncTotal string `default:"none" env:"LIMIT_ASYNC_TOTAL" help:"Writes of all users whose results are not waited for (${default})."`
}

// settings returns nil if the protection is off.
func (o protection) settings() *admission.Settings {
	if o.Admission == "off" {
		return nil
	}
	s := admission.Defaults()
	s.Inflight, s.EventBreaker.Preset = o.Inflight, o.EventBreaker
	s.Depth = admission.DepthSettings{Wait: o.DepthWait, Open: o.DepthOpen}
	s.Limits = admission.LimitSettings{
		Mode: o.LimitMode, Read: o.LimitRead, Write: o.LimitWrite, Async: o.LimitAsync,
		ReadTotal: o.LimitReadTotal, WriteTotal: o.LimitWriteTotal, AsyncTotal: o.LimitAsyncTotal,
	}
	return &s
}

func (o protection) checkOverload(callTimeout time.Duration) error {
	s := o.settings()
	if s == nil {
		return nil
	}
	if err := s.Check(callTimeout); err != nil {
		return usagef("INFLIGHT, EVENT_BREAKER, DEPTH_* or LIMIT_*: %v", err)
	}
	return nil
}
