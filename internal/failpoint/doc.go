// Package failpoint has named points at each step of a write and of a change of role, at which a test can make a process
// die, pause or get an error. It also has switches that break a promise on purpose, to prove that the tests notice.
//
// The released binary has none of this: without the build tag failpoint, Hit, Fail and On are empty, and the code that
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
//   - pause: a goroutine that reaches the point waits there until the point is disarmed;
//   - spin: a goroutine that reaches the point loops there until the point is disarmed, as an endless loop would;
//   - slow: a goroutine that reaches the point waits there for a second, at points where a disk can be slow;
//   - error: the step fails, at points whose step can fail (see Point);
//   - on: for switches.
//
// An armed point stays armed. A test of a dying worker arms the point in that process only, by its pid, so that the next
// worker is not affected.
package failpoint
