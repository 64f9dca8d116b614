# The logs of the stack. Workers are no services of docker-compose.yml, so compose does not show their logs. deploy/stack.sh sources
# this file.

workers() { docker ps -a "$(ours)" --filter label=com.docker.compose.service=worker --format '{{.Names}}'; }

# worker_log NAME OPTION... prints the log of a worker, with its name before each line, as compose does.
worker_log() { docker logs "${@:2}" "$1" 2>&1 | sed -u "s/^/$1 | /"; }

# follow_workers follows the logs of all workers, also of those that are started later.
follow_workers() {
  local name known=' '
  while :; do
    for name in $(workers); do
      [[ $known != *" $name "* ]] || continue
      known+="$name "
      worker_log "$name" -f --tail=100 &
    done
    sleep 2
  done
}

logs() {
  use_images
  if [ $# -gt 0 ]; then compose logs -f --tail=100 "$@"; return; fi
  set -m # the followers are a group of processes, which ends as a whole
  follow_workers &
  set +m
  # shellcheck disable=SC2064 # $! is meant to be expanded now
  trap "kill -- -$! 2>/dev/null || true" EXIT
  compose logs -f --tail=100
}

# keep_logs FILE writes all logs to the file.
keep_logs() {
  local name
  {
    compose logs --no-color
    for name in $(workers); do worker_log "$name"; done
  } >"$1" 2>&1 || true
}
