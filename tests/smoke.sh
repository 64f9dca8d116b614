#!/usr/bin/env bash
# What a newcomer does with the README: start the whole system with one command,
# talk to it with curl, kill its master, end it with Ctrl-C, start it again and
# find the data still there. Leaves nothing behind. GO_RUN replaces the command.
set -euo pipefail
set -m # jobs get a process group of their own and Ctrl-C's default meaning
cd "$(dirname "$0")/.."

work=$(mktemp -d)
ready=$work/ready.json
log=$work/up.log
job=

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'smoke: %s\n' "$*" >&2
  [ ! -f "$log" ] || { printf 'smoke: the end of its output:\n' >&2; tail -n 40 "$log" >&2; }
  exit 1
}

# Kills what is left of the job. The job's pid is the id of its process group.
cleanup() {
  code=$?
  trap - EXIT
  if [ -n "$job" ]; then
    kill -KILL -- "-$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await SECONDS WHAT COMMAND... waits until the command succeeds.
await() {
  local limit=$1 what=$2 until
  shift 2
  until=$((SECONDS + limit))
  while ! "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || fail "$what: not within $limit s"
    if [ -n "$job" ] && ! kill -0 "$job" 2>/dev/null; then fail "$what: it has ended"; fi
    sleep 0.2
  done
}

# from_ready NAME prints a value of the ready file.
from_ready() { sed -E "s/.*\"$1\" *: *\"?([^\",}]*).*/\1/" "$ready" | tr -d '\n'; }

up() {
  say "${GO_RUN:-go run ./cmd/rideshare} up"
  # shellcheck disable=SC2086 # the command is several words
  ${GO_RUN:-go run ./cmd/rideshare} up --data "$work/data" --ready-file "$ready" \
    --gateway 127.0.0.1:0 --users 127.0.0.1:0 --rides 127.0.0.1:0 --orchestrator 127.0.0.1:0 >>"$log" 2>&1 &
  job=$!
  await 600 "ready file" test -s "$ready" # the first run compiles everything
  gateway=$(from_ready gateway) orchestrator=$(from_ready orchestrator) pid=$(from_ready pid)
  echo "gateway $gateway, orchestrator $orchestrator, pid $pid"
}

# down sends SIGINT to the real process, as Ctrl-C does. The process and the command must end with 0.
down() {
  say "Ctrl-C"
  local code=0 until=$((SECONDS + 15))
  kill -INT "$pid"
  while kill -0 "$job" 2>/dev/null; do
    [ "$SECONDS" -lt "$until" ] || fail "still runs 15 s after Ctrl-C"
    sleep 0.1
  done
  wait "$job" || code=$?
  job=
  [ "$code" = 0 ] || fail "exit code $code after Ctrl-C, want 0"
  ! kill -0 "$pid" 2>/dev/null || fail "process $pid is still there"
  [ ! -e "$ready" ] || fail "the ready file is still there"
  echo "ended with 0, nothing left behind"
}

# call STATUS BODY CURL-ARGUMENT... sends a request. The answer must have the status and
# the body; BODY may be a pattern.
call() {
  local want=$1 body=$2 status
  shift 2
  printf 'curl'
  printf ' %q' "$@"
  printf '\n'
  status=$(curl -sS --max-time 20 -o "$work/body" -w '%{http_code}' "$@") || fail "no answer"
  printf '  %s %s\n' "$status" "$(cat "$work/body")"
  [ "$status" = "$want" ] || fail "status $status, want $want"
  # shellcheck disable=SC2053 # a pattern on purpose
  [[ $(cat "$work/body") == $body ]] || fail "body $(cat "$work/body"), want $body"
}

put_user() {
  curl -sS --max-time 20 -o /dev/null -X PUT "$gateway/api/v1/users" \
    -d "{\"username\":\"$1\",\"password\":\"5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8\"}"
  curl -sS --max-time 20 "$gateway/api/v1/users" | grep -q "\"$1\"" # An earlier call without an answer may have done it.
}

up
say "users and rides"
call 204 '' "$gateway/api/v1/users"
call 201 '{}' -X PUT "$gateway/api/v1/users" -d '{"username":"ann","password":"5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8"}'
call 201 '{}' -X PUT "$gateway/api/v1/users" -d '{"username":"bob","password":"5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8"}'
call 200 '\["ann","bob"\]' "$gateway/api/v1/users"
call 201 '{}' -X POST "$gateway/api/v1/rides" -d '{"created_by":"ann","timestamp":"31-12-2999:00-30-08","source":22,"destination":23}'
call 200 '\[{"rideId":1,*' "$gateway/api/v1/rides?source=22&destination=23"
call 200 '{}' -X POST "$gateway/api/v1/rides/1" -d '{"username":"bob"}'
call 200 '*"users":\["bob"\]*' "$gateway/api/v1/rides/1"

say "the workers, and the death of the master"
call 200 '\[*,*\]' "$orchestrator/api/v1/worker/list"
call 200 '\[*\]' -X POST "$orchestrator/api/v1/crash/master"
await 30 "a new user after the master's death" put_user eve
call 200 '\["ann","bob","eve"\]' "$gateway/api/v1/users"
down

up
say "the data are still there"
call 200 '\["ann","bob","eve"\]' "$gateway/api/v1/users"
call 200 '*"users":\["bob"\]*' "$gateway/api/v1/rides/1"
down
say "smoke: all well"
