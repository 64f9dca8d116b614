// Package failpoint has named points at each step of a write and of a change of role, at which
// a test can make a process die, stop or get an error, and switches that break a promise on
// purpose, to see that the tests notice.
//
// The released binary has none of it: without the build tag failpoint, Hit, Fail and On are empty, and what
// they guard is not compiled. `go build -tags failpoint` makes a binary in which
//
//   - RIDESHARE_FAILPOINTS arms points from the start, in every process that inherits it:
//     "no-epoch-check=on,master-after-commit=kill";
//   - RIDESHARE_FAILPOINT_DIR is a directory in which each process listens, as PID.sock, for
//     requests to arm points in this process alone: PUT /NAME with the action as body, DELETE /NAME,
//     GET /NAME for {"action","hits","waiting"}. failpointtest speaks it.
//
// The actions are
//
//   - kill: the process ends itself with SIGKILL;
//   - pause: whoever comes to the point waits there until the point is disarmed;
//   - slow: whoever comes to the point waits there for a second, at points where a disk can be slow;
//   - error: the step fails, at points that stand for one that can (see Point);
//   - on: for switches.
//
// An armed point stays armed. A test of a dying worker arms it in that process only, by its
// pid: the next worker does not have it.
package failpoint
