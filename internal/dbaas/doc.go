// Package dbaas defines the vocabulary shared by all parts of the system: positions, operations, results and error
// codes. It imports only the standard library.
//
// One word per idea, everywhere:
//
//   - master, slave: the role of a worker. All workers run the same program.
//   - persdb: the service that owns the durable database and the commit log.
//   - operation: one write as a client sent it, with its id.
//   - entry: one commit, that is one batch of operations, with its seq.
//   - seq: position in the log, dense, from 1. epoch: number of one master's term.
//   - catch up: reach persdb's head from a snapshot and the log.
package dbaas
