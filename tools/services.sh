#!/usr/bin/env bash
# Real RabbitMQ, ZooKeeper and PostgreSQL servers for the tests, on free loopback
# ports. All their files are below one directory, so that several checkouts and the
# private instances of fault tests run side by side. Only PostgreSQL's data are below
# /var/tmp. PostgreSQL is two services: postgres, and its standby pgstandby; a second
# standby, pgstandby2, runs if it is named.
#
#   tools/services.sh start   [--dir DIR] [--owner PID] [rabbitmq] [zookeeper] [postgres]
#   tools/services.sh stop    [--dir DIR] [rabbitmq] [zookeeper] [postgres]
#   tools/services.sh status  [--dir DIR] [rabbitmq] [zookeeper] [postgres]
#   tools/services.sh kill|pause|resume [--dir DIR] rabbitmq|zookeeper|postgres|pgstandby|pgstandby2
#   tools/services.sh wipe    [--dir DIR] zookeeper
#
# start installs what is missing, starts the services that do not run yet, waits until
# all answer, and last prints RABBITMQ_URL=..., ZOOKEEPER_URL=... and POSTGRES_URL=...,
# which are also in DIR/env. After a kill, start starts the service again with its data
# and its port, after a wipe with its port alone. With --owner the services end when
# that process has ended. DIR is .services of this checkout unless set.
# SERVICES_MODE=container uses containers even if the packages are installed;
# SERVICES_INSTALL=no installs and pulls nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
self=$root/tools/services.sh
dir=$root/.services
owner=
wanted=()

# The longest waits, in seconds: for a cold start on a busy machine, and for the end of a service.
start_limit=90
stop_limit=6

note() { echo "services: $*" >&2; }
die() { note "$*"; exit 1; }

. "$root/tools/services/process.sh"
. "$root/tools/services/install.sh"
. "$root/tools/services/container.sh"
. "$root/tools/services/rabbitmq.sh"
. "$root/tools/services/zookeeper.sh"
. "$root/tools/services/postgres.sh"

usage() { sed -n '8,12s/^# *//p' "$self" >&2; exit 2; }

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --dir) [ $# -ge 2 ] || usage; dir=$2; shift 2 ;;
      --owner) [ $# -ge 2 ] || usage; owner=$2; shift 2 ;;
      rabbitmq | zookeeper | postgres | pgstandby | pgstandby2) wanted+=("$1"); shift ;;
      *) usage ;;
    esac
  done
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  case $verb in
    start | stop | status) complete ;;
    guard) ;;
    *) [ ${#wanted[@]} -gt 0 ] || usage ;;
  esac
}

# complete completes the list of wanted services: all if none is named, and with postgres its standby.
complete() {
  if [ ${#wanted[@]} -eq 0 ]; then
    wanted=(rabbitmq zookeeper)
    if [ -d "$dir/postgres" ] || { [ "$verb" = start ] && postgres_possible; }; then
      wanted+=(postgres)
    elif [ "$verb" = start ]; then
      note "PostgreSQL is missing, so the tests of the log in it are left out (as root on Debian: apt-get install $postgres_packages)"
    fi
  fi
  case " ${wanted[*]} " in
    *" postgres "*)
      wanted+=(pgstandby)
      if [ "$verb" = stop ] && [ -d "$dir/pgstandby2" ]; then wanted+=(pgstandby2); fi ;;
  esac
}

# in_mode SERVICE VERB calls the verb's function for a process or a container, whichever the service is.
in_mode() {
  local mode=process
  [ ! -s "$dir/$1/mode" ] || read -r mode <"$dir/$1/mode"
  if [ "$mode" = container ]; then "container_$2" "$1"; else "process_$2" "$1"; fi
}

running() { in_mode "$1" alive; }

# ready SERVICE succeeds if the service runs and answers in its own protocol.
ready() { running "$1" && "${1}_answers"; }

start_one() {
  local service=$1 try
  mkdir -p "$dir/$service"
  if running "$service"; then
    wait_ready "$service" && return
    die "$service runs but does not answer on port $(port_of "$service" client); see $dir/$service, or stop it"
  fi
  local mode
  mode=$(provide "$service")
  echo "$mode" >"$dir/$service/mode"
  # Another program may take a free port before the service does: then the next try uses other ports.
  for try in 1 2 3; do
    "${service}_start_$mode"
    wait_ready "$service" && return
    note "$service did not come up (try $try); its last words:"
    tail -n 5 "$dir/$service/out" >&2 || true
    stop_one "$service"
    rm -f "$dir/$service"/*.port
  done
  die "$service cannot be started; see $dir/$service"
}

wait_ready() {
  local until=$((SECONDS + start_limit))
  while [ $SECONDS -lt $until ]; do
    running "$1" || return 1
    "${1}_answers" && return
    sleep 0.1
  done
  return 1
}

stop_one() {
  in_mode "$1" stop
  if [ "$1" = rabbitmq ]; then end "$dir/rabbitmq/epmd.pid" TERM; fi
}

# write_env writes the addresses of the running services to DIR/env, for people, make and tests.
write_env() {
  local service
  for service in rabbitmq zookeeper postgres pgstandby pgstandby2; do
    if running "$service"; then "${service}_env"; fi
  done >"$dir/env.new"
  mv "$dir/env.new" "$dir/env"
}

# guard ends the services of this directory when their owner has ended.
guard() {
  while sleep 1; do
    [ -e "$dir/guard.pid" ] || return 0
    is_alive "$dir/owner.pid" || break
  done
  exec "$self" stop --dir "$dir"
}

start_guard() {
  [ -n "$owner" ] || return 0
  ! is_alive "$dir/guard.pid" || return 0
  remember "$dir/owner.pid" "$owner" || die "no process $owner"
  launch "$dir/guard" "$self" guard --dir "$dir"
}

[ $# -gt 0 ] || usage
verb=$1
shift
parse "$@"

# One run at a time in a directory. Started services must not inherit the lock.
if [ "$verb" != guard ]; then
  exec 9>"$dir/lock"
  flock -w 300 9 || die "another run holds $dir/lock"
fi

case $verb in
  start)
    start_guard
    for service in "${wanted[@]}"; do start_one "$service"; done
    write_env
    for service in "${wanted[@]}"; do grep "^${service^^}_URL=" "$dir/env"; done
    ;;
  stop)
    rm -f "$dir/guard.pid" "$dir/owner.pid" # in this order: the guard must not take it for its owner's end
    for service in "${wanted[@]}"; do stop_one "$service"; done
    case " ${wanted[*]} " in *" postgres "*) postgres_remove ;; esac
    write_env
    if [ ! -s "$dir/env" ]; then rm -f "$dir/env"; fi
    ;;
  status)
    failed=0
    for service in "${wanted[@]}"; do
      if ready "$service"; then echo "$service answers: $("${service}_url")"
      elif running "$service"; then echo "$service runs but does not answer"; failed=1
      else echo "$service does not run"; failed=1; fi
    done
    exit $failed
    ;;
  kill | pause | resume)
    for service in "${wanted[@]}"; do
      running "$service" || die "$service does not run in $dir"
      in_mode "$service" "$verb"
    done
    ;;
  wipe)
    for service in "${wanted[@]}"; do
      [ "$service" = zookeeper ] || die "only zookeeper can lose its data"
      running "$service" || die "$service does not run in $dir"
      in_mode "$service" wipe
    done
    ;;
  guard) guard ;;
  *) usage ;;
esac
