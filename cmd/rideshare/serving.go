package main

import (
	"strings"
	"time"

	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// serving holds the settings of the orchestrator that have the same names in every mode.
type serving struct {
	ScalePeriod        time.Duration         `default:"2m" env:"SCALE_PERIOD" help:"How often the number of slaves is adapted to the load; the first period begins with the first request to db/* (${default})."`
	ScaleReadsPerSlave int                   `default:"20" env:"SCALE_READS_PER_SLAVE" help:"Reads in a period that one slave serves, by policy reads (${default})."`
	ScaleMin           int                   `default:"1" env:"SCALE_MIN" help:"Fewest slaves (${default})."`
	ScaleMax           int                   `default:"8" env:"SCALE_MAX" help:"Most slaves (${default})."`
	ScalePolicy        string                `default:"reads" enum:"reads,latency" env:"SCALE_POLICY" help:"How the number of slaves is decided: reads (by the reads in a period), or latency (by how long reads wait and how busy slaves are). /api/v1/scaling/decisions also shows what the other policy would have done (${default})."`
	StartsPerMinute    int                   `default:"120" env:"STARTS_PER_MINUTE" help:"Most workers started at once, and in each minute after that, 1 to 600: workers that die at once are not started faster (${default})."`
	HungAfter          time.Duration         `default:"600ms" env:"HUNG_AFTER" help:"How long a worker may show no sign of life, while others do, before it is replaced, 300ms to 1m. Too short, and a slow worker is replaced too (${default})."`
	CallTimeout        time.Duration         `default:"5s" env:"CALL_TIMEOUT" help:"Longest wait for a worker's answer (${default})."`
	SQLLoadTime        time.Duration         `default:"30s" name:"sql-load-time" env:"SQL_LOAD_TIME" help:"How long a /db/load may run, 1s to 1m; other writes wait in the meantime (${default})."`
	SQLMaxTimeout      time.Duration         `default:"50s" env:"SQL_MAX_TIMEOUT" help:"Longest timeout= that a request to /db/query, /db/execute or /db/request may ask for, at most 50s (${default})."`
	AllowOrigin        string                `default:"" placeholder:"ORIGIN" env:"ALLOW_ORIGIN" help:"Value of Access-Control-Allow-Origin in the answers of /db/*, /status, /nodes and /readyz. Default: the header is not sent."`
	SQLMaxStatements   int                   `default:"100000" env:"SQL_MAX_STATEMENTS" help:"Most statements of a request to /db/query, /db/execute or /db/request (${default})."`
	Cache              string                `default:"on" enum:"on,off" env:"CACHE" help:"Read cache of the orchestrator, on or off. It follows the log, so its answers are never stale (${default})."`
	CacheBytes         byteSize              `default:"64MiB" env:"CACHE_BYTES" help:"Most memory of the read cache, at least 1MiB (${default})."`
	CacheAudit         time.Duration         `default:"0s" env:"CACHE_AUDIT" help:"How often cached answers are compared with a worker's, at most 100 a second; what differs is an error in the log. 0 is never (${default})."`
	LaneLimitRead      admission.LaneSetting `default:"1024" placeholder:"LIMIT" env:"LANE_LIMIT_READ" help:"Most reads of a class that wait or are in flight: a number, or adaptive, which follows the time that answers take (${default})."`
	LaneLimitWrite     admission.LaneSetting `default:"1024" placeholder:"LIMIT" env:"LANE_LIMIT_WRITE" help:"Most writes that wait or are in flight: a number, or adaptive, as for reads (${default})."`
	UserWeights        map[string]int        `mapsep:"," placeholder:"USER=N" env:"USER_WEIGHTS" help:"Shares of users in a full queue, as ann=3,bob=2; any other user has 1."`
	ChangesStreams     int                   `default:"64" env:"CHANGES_STREAMS" help:"Most open streams of /api/v1/changes on this orchestrator (${default})."`
	ChangesStall       time.Duration         `default:"10s" env:"CHANGES_STALL" help:"How long a consumer of /api/v1/changes may take nothing before it is cut off; it can resume (${default})."`
	protection         `group:"Protection from overload:"`
	memory
}

func (s serving) changes() system.Changes {
	return system.Changes{Streams: s.ChangesStreams, Stall: s.ChangesStall}
}

func (s serving) lanes() admission.Lanes {
	return admission.Lanes{Read: s.LaneLimitRead, Write: s.LaneLimitWrite, Weights: s.UserWeights}
}

func (s serving) cache() system.Cache {
	return system.Cache{Off: s.Cache == "off", Bytes: int64(s.CacheBytes), Audit: s.CacheAudit}
}

func (s serving) scale() system.Scale {
	return system.Scale{
		Settings: scale.Settings{Policy: s.ScalePolicy, Min: s.ScaleMin, Max: s.ScaleMax, ReadsPerSlave: s.ScaleReadsPerSlave},
		Period:   s.ScalePeriod,
	}
}

// check returns all problems with the numbers.
func (s serving) check(slaves int) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, usagef(format, args...))
		}
	}
	check(slaves >= 1 && slaves <= s.ScaleMax, "--slaves: %d is not between 1 and SCALE_MAX (%d)", slaves, s.ScaleMax)
	check(s.ScaleMin >= 1 && s.ScaleMin <= s.ScaleMax, "SCALE_MIN: %d is not between 1 and SCALE_MAX (%d)", s.ScaleMin, s.ScaleMax)
	check(s.ScaleReadsPerSlave >= 1, "SCALE_READS_PER_SLAVE: %d is not at least 1", s.ScaleReadsPerSlave)
	check(s.ScalePeriod >= time.Second, "SCALE_PERIOD: %v is not at least 1s", s.ScalePeriod)
	check(s.StartsPerMinute >= 1 && s.StartsPerMinute <= 600, "STARTS_PER_MINUTE: %d is not between 1 and 600", s.StartsPerMinute)
	check(s.HungAfter >= 300*time.Millisecond && s.HungAfter <= time.Minute, "HUNG_AFTER: %v is not between 300ms and 1m", s.HungAfter)
	check(s.CallTimeout > 0, "CALL_TIMEOUT: %v is not positive", s.CallTimeout)
	check(s.SQLLoadTime >= time.Second && s.SQLLoadTime <= time.Minute, "SQL_LOAD_TIME: %v is not between 1s and 1m", s.SQLLoadTime)
	check(s.SQLMaxTimeout > 0 && s.SQLMaxTimeout <= 50*time.Second, "SQL_MAX_TIMEOUT: %v is not more than 0 and at most 50s", s.SQLMaxTimeout)
	check(!strings.ContainsAny(s.AllowOrigin, "\r\n"), "ALLOW_ORIGIN: %q is no header value", s.AllowOrigin)
	check(s.SQLMaxStatements >= 1, "SQL_MAX_STATEMENTS: %d is not at least 1", s.SQLMaxStatements)
	check(s.CacheBytes >= 1<<20, "CACHE_BYTES: %d is not at least 1MiB", s.CacheBytes)
	check(s.ChangesStreams >= 1, "CHANGES_STREAMS: %d is not at least 1", s.ChangesStreams)
	check(s.ChangesStall > 0, "CHANGES_STALL: %v is not positive", s.ChangesStall)
	check(s.CacheAudit >= 0, "CACHE_AUDIT: %v is negative", s.CacheAudit)
	for user, weight := range s.UserWeights {
		check(user != "" && weight >= 1 && weight <= 1000, "USER_WEIGHTS: %s=%d is not a user and a weight from 1 to 1000", user, weight)
	}
	return joinUsage(append(errs, s.checkOverload(s.CallTimeout))...)
}
