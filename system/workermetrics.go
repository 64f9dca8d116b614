package system

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/telemetry"
	"rideshare/internal/workerapi"
)

// WorkerMetrics returns the metrics of workers, read from their statuses. A worker process exports its own metrics, and
// the embedded system those of all workers.
func WorkerMetrics(statuses func(context.Context) []workerapi.Status) []telemetry.Sampled {
	each := func(read func(s *workerapi.Status, emit func(float64, ...string))) func(func(float64, ...string)) {
		return func(emit func(float64, ...string)) {
			for _, s := range statuses(context.Background()) {
				read(&s, emit)
			}
		}
	}
	seconds := func(counter string) func(func(float64, ...string)) {
		return each(func(s *workerapi.Status, emit func(float64, ...string)) {
			emit(float64(s.Counters[counter])/1e6, string(s.ID))
		})
	}
	return []telemetry.Sampled{
		{
			Name: "rideshare_worker_applied_seq", Help: "Position that the worker's replica has applied.", Gauge: true, Labels: []string{"worker"},
			Read: each(func(s *workerapi.Status, emit func(float64, ...string)) { emit(float64(s.Applied), string(s.ID)) }),
		},
		{
			Name: "rideshare_worker_serving", Help: "Whether the worker serves the role that it was given.", Gauge: true, Labels: []string{"worker", "role"},
			Read: each(func(s *workerapi.Status, emit func(float64, ...string)) {
				emit(oneIf(s.Ready), string(s.ID), string(s.Role))
			}),
		},
		{
			Name: "rideshare_worker_reads_busy_seconds_total", Help: "Time that read transactions took.", Labels: []string{"worker"},
			Read: seconds(counterBusy),
		},
		{
			Name: "rideshare_worker_reads_places_seconds_total", Help: "Time since the start of the worker, counted once for each place for reads; rideshare_worker_reads_busy_seconds_total divided by it is how busy a slave is.", Labels: []string{"worker"},
			Read: seconds(counterPlaces),
		},
		{
			Name: "rideshare_worker_events_total", Labels: []string{"worker", "event"},
			Help: "What the worker has done and met since its start: messages, reads, commits, entries, catch-ups, snapshots and their failures." +
				" Among them are diverged (replicas discarded, since they differed from persdb or could not be used) and dead_letters (writes taken from dead.write).",
			Read: each(func(s *workerapi.Status, emit func(float64, ...string)) {
				for name, value := range s.Counters {
					if name != counterBusy && name != counterPlaces {
						emit(float64(value), string(s.ID), name)
					}
				}
			}),
		},
	}
}

// The counters of a slave that are times, in microseconds.
const (
	counterBusy   = "read_busy_us"
	counterPlaces = "read_places_us"
)

// Store provides persdb's newest position and epoch, and its sizes.
type Store interface {
	Head(ctx context.Context) (dbaas.Head, error)
	Sizes(ctx context.Context) (dbaas.Sizes, error)
}

// briefly asks for a sample, for at most positionsTimeout: a part that hangs must not take the other metrics away.
func briefly[T any](ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), positionsTimeout)
	defer cancel()
	return ask(ctx)
}

// StoreMetrics returns the metrics of persdb that any process with access to persdb can export.
func StoreMetrics(store Store) []telemetry.Sampled {
	head := func(value func(dbaas.Head) float64) func(func(float64, ...string)) {
		return func(emit func(float64, ...string)) {
			if h, err := briefly(store.Head); err == nil {
				emit(value(h))
			}
		}
	}
	size := func(name, help string, value func(dbaas.Sizes) int64) telemetry.Sampled {
		return telemetry.Sampled{Name: "rideshare_persdb_" + name, Help: help, Gauge: true, Read: func(emit func(float64, ...string)) {
			if s, err := briefly(store.Sizes); err == nil {
				emit(float64(value(s)))
			}
		}}
	}
	return []telemetry.Sampled{
		size("database_bytes", "Bytes of tables and indexes: about what a replica is.", func(s dbaas.Sizes) int64 { return s.Tables }),
		size("database_limit_bytes", "How large the database may get (MAX_DATABASE_MIB); 0 without a limit.", func(s dbaas.Sizes) int64 { return s.Limit }),
		size("log_bytes", "Bytes of entries and answers that the log keeps.", func(s dbaas.Sizes) int64 { return s.Log }),
		size("file_bytes", "Bytes of the database file and its WAL: tables, log and free pages.", func(s dbaas.Sizes) int64 { return s.File }),
		size("disk_free_bytes", "Bytes that are left on the disk of the database file.", func(s dbaas.Sizes) int64 { return s.DiskFree }),
		{
			Name: "rideshare_persdb_full", Gauge: true, Labels: []string{"what"},
			Help: "Whether writes are refused because there is no room: the disk is full, or the database has reached its limit.",
			Read: func(emit func(float64, ...string)) {
				if s, err := briefly(store.Sizes); err == nil {
					emit(oneIf(s.DiskFull), "disk")
					emit(oneIf(s.Full), "database")
				}
			},
		},
		{Name: "rideshare_persdb_head_seq", Help: "Newest position of the log.", Gauge: true, Read: head(func(h dbaas.Head) float64 { return float64(h.Seq) })},
		{Name: "rideshare_persdb_epoch", Help: "Newest epoch.", Gauge: true, Read: head(func(h dbaas.Head) float64 { return float64(h.Epoch) })},
	}
}

// ActiveMetric returns the metric of a persdb that shares its log with others.
func ActiveMetric(active func() bool) telemetry.Sampled {
	return telemetry.Sampled{
		Name: "rideshare_persdb_active", Gauge: true, Help: "Whether this persdb is active: of several with one log one alone takes commits, and the others follow it.",
		Read: func(emit func(float64, ...string)) { emit(oneIf(active())) },
	}
}

// ClockMetric returns the metric of a part that calls persdb. difference is by how much persdb's clock is ahead.
func ClockMetric(difference func() (time.Duration, bool)) telemetry.Sampled {
	return telemetry.Sampled{
		Name: "rideshare_clock_difference_seconds", Gauge: true,
		Help: "By how much persdb's clock is ahead of the part's, as its shortest call of the last minute says; negative if it is behind.",
		Read: func(emit func(float64, ...string)) {
			if ahead, ok := difference(); ok {
				emit(ahead.Seconds())
			}
		},
	}
}

// BusMetrics returns the metrics of one connection to the bus.
func BusMetrics(bus mq.Conn) []telemetry.Sampled {
	state := func(name, help string, gauge bool, value func(mq.State) float64) telemetry.Sampled {
		return telemetry.Sampled{Name: "rideshare_bus_" + name, Help: help, Gauge: gauge, Read: func(emit func(float64, ...string)) {
			emit(value(bus.State()))
		}}
	}
	return []telemetry.Sampled{
		state("connected", "Whether the part can send to the broker and receive from it. Of its connections to each node of a cluster, it needs one.", true, func(s mq.State) float64 { return oneIf(s.Connected) }),
		state("blocked", "Whether the broker takes no messages from the part (alarm).", true, func(s mq.State) float64 { return oneIf(s.Blocked) }),
		state("connections_lost_total", "Connections to the broker that were lost. The part connects again.", false, func(s mq.State) float64 { return float64(s.Lost) }),
		{
			Name: "rideshare_bus_host", Help: "1 for each connection to the broker that is up, with the broker's host that it uses.", Gauge: true, Labels: []string{"connection", "host"},
			Read: func(emit func(float64, ...string)) {
				for connection, host := range bus.State().Hosts {
					emit(1, connection, host)
				}
			},
		},
	}
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
