#!/usr/bin/env bash
# Runs the stack of docker-compose.yml, and adds what compose alone cannot know: which images exist, where the secrets are, which
# group may use the engine's socket, and which workers belong to the stack.
#
#   deploy/stack.sh up                 build what is missing, start, wait until ready, say where it is; OBSERVE=1: with Prometheus; POSTGRES=1: with PostgreSQL
#   deploy/stack.sh down [--volumes]   remove it, workers and networks included; with --volumes the data too
#   deploy/stack.sh restore FOLDER     put a data folder in the place of the data, while nothing runs
#   deploy/stack.sh logs [SERVICE...]  follow the logs; without SERVICE those of the workers too
#   deploy/stack.sh ps                 its containers
#   deploy/stack.sh images             only find or make the images
#   deploy/stack.sh compose ARG...     anything else of docker-compose
#
# Settings are in .env.example. PROJECT names the stack: several stacks run side by side if their names and ports differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for part in composelib.sh logs.sh observe.sh postgres/stack.sh restore.sh; do . "deploy/$part"; done

note() { echo "stack: $*" >&2; }
die() { note "$*"; exit 1; }

# read_settings reads .env. A variable of the environment overrides the file. Quotes and comments are no part of a value, as in
# compose.
read_settings() {
  local line name value
  [ -e .env ] || return 0
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in [A-Z]*=*) ;; *) continue ;; esac
    name=${line%%=*} value=${line#*=}
    value=${value%$'\r'}
    if [[ $value =~ ^[[:space:]]*\"([^\"]*)\"[[:space:]]*(#.*)?$ || $value =~ ^[[:space:]]*\'([^\']*)\'[[:space:]]*(#.*)?$ ]]; then
      value=${BASH_REMATCH[1]}
    else
      value=${value%%[[:space:]]#*}
      value=${value%"${value##*[![:space:]]}"} value=${value#"${value%%[![:space:]]*}"}
    fi
    [ -n "${!name+set}" ] || export "$name=$value"
  done <.env
}

# find_socket finds the socket of the engine that the docker command uses, and its group.
find_socket() {
  case ${DOCKER_HOST:-} in
    unix://*) : "${DOCKER_SOCKET:=${DOCKER_HOST#unix://}}" ;;
    '') : "${DOCKER_SOCKET:=/var/run/docker.sock}" ;;
    *) [ -n "${DOCKER_SOCKET:-}" ] || die "DOCKER_HOST is $DOCKER_HOST; the launcher needs a socket of that machine: set DOCKER_SOCKET and DOCKER_GID" ;;
  esac
  : "${DOCKER_GID:=$(stat -L -c %g "$DOCKER_SOCKET" 2>/dev/null || echo 0)}"
  export DOCKER_SOCKET DOCKER_GID
}

# choose_auth: without AUTH, authentication is off if the ports are published on a loopback address, and on otherwise.
choose_auth() {
  case ${AUTH:-} in
    on) STACK_AUTH_FILE=/run/secrets/api-credentials ;;
    off) STACK_AUTH_FILE= ;;
    '') case ${BIND:-127.0.0.1} in
      127.* | ::1) STACK_AUTH_FILE= ;;
      *) STACK_AUTH_FILE=/run/secrets/api-credentials ;;
    esac ;;
    *) die "AUTH is $AUTH; allowed: on, off" ;;
  esac
  export STACK_AUTH_FILE
}

# choose_tls: with TLS_DIR all our parts speak https, which a second compose file sets up. Compose reads docker-compose.override.yml
# by itself only if COMPOSE_FILE is not set.
choose_tls() {
  STACK_SCHEME=http
  [ -n "${TLS_DIR:-}" ] || return 0
  STACK_SCHEME=https
  : "${COMPOSE_FILE:=docker-compose.yml$([ ! -e docker-compose.override.yml ] || echo :docker-compose.override.yml)}"
  export COMPOSE_FILE=$COMPOSE_FILE:deploy/docker-compose.tls.yml
}

tls_files='cert.pem key.pem ca.pem'

# check_tls ends the script unless the files of TLS_DIR exist.
check_tls() {
  local file
  [ $STACK_SCHEME = https ] || return 0
  for file in $tls_files; do
    [ -r "$TLS_DIR/$file" ] || die "TLS_DIR is $TLS_DIR; $file is not there or cannot be read. It needs a certificate (cert.pem), its key (key.pem) and the CA (ca.pem)"
  done
}

# copy_tls copies the files of TLS_DIR to a folder that containers can read, each whole or not at all. Running parts read changed
# files again.
copy_tls() {
  local file to=$STACK_SECRETS/tls
  [ $STACK_SCHEME = https ] || return 0
  mkdir -p "$to"
  chmod 755 "$to" # nobody else enters the directory above it
  for file in $tls_files; do
    ! cmp -s "$TLS_DIR/$file" "$to/$file" || continue
    rm -f "$to/$file.new" # an interrupted run may have left it read-only
    cp "$TLS_DIR/$file" "$to/$file.new"
    chmod 444 "$to/$file.new"
    mv -f "$to/$file.new" "$to/$file"
  done
}

# other_scheme succeeds if a worker runs with another scheme than that of the settings. Such a worker and the other parts cannot call
# each other.
other_scheme() {
  local urls
  urls=$(docker ps -a "$(ours)" --filter label=com.docker.compose.service=worker --format '{{.Label "rideshare.control"}}')
  [ -n "$urls" ] && grep -qv "^$STACK_SCHEME://" <<<"$urls"
}

# choose_hosts limits the host names of requests if the ports are published on a loopback address: a web page whose own name resolves
# to this machine (DNS rebinding) must not get answers. The names by which other parts call gateway and orchestrator stay allowed.
choose_hosts() {
  case ${BIND:-127.0.0.1} in
    127.* | ::1) STACK_HOSTS=gateway,orchestrator${ALLOWED_HOSTS:+,$ALLOWED_HOSTS} ;;
    *) STACK_HOSTS=${ALLOWED_HOSTS:+gateway,orchestrator,$ALLOWED_HOSTS} ;;
  esac
  export STACK_HOSTS
}

# size_memory computes the memory limits of the parts from the largest request and the size of a replica. A part holds several copies
# of a request while it works on it. For persdb this was measured: one commit of 60 MiB and three readers of its entry take 800 MiB.
# Go keeps to its share (GO_MIB) by collecting garbage more often; the rest is for SQLite, the page cache, and Go memory in use beyond
# the share.
size_memory() {
  : "${LARGEST_REQUEST_MIB:=64}" "${WORKER_REPLICA_MIB:=256}"
  [[ $LARGEST_REQUEST_MIB =~ ^[1-9][0-9]*$ && $LARGEST_REQUEST_MIB -ge 64 ]] || die "LARGEST_REQUEST_MIB is $LARGEST_REQUEST_MIB; allowed: 64 and more, since such a request is legal"
  # Room for two replicas: the served one, and the next one or the WAL.
  : "${MAX_DATABASE_MIB:=$((WORKER_REPLICA_MIB / 2))}" "${WORKER_MEMORY_MIB:=$((WORKER_REPLICA_MIB + 20 * LARGEST_REQUEST_MIB))}"
  export WORKER_REPLICA_MIB WORKER_MEMORY_MIB MAX_DATABASE_MIB
  export PERSDB_MEMORY_MIB=$((256 + 12 * LARGEST_REQUEST_MIB)) PERSDB_GO_MIB=$((4 * LARGEST_REQUEST_MIB))
  export ORCHESTRATOR_MEMORY_MIB=$((256 + 12 * LARGEST_REQUEST_MIB)) ORCHESTRATOR_GO_MIB=$((256 + 10 * LARGEST_REQUEST_MIB))
  export USERS_MEMORY_MIB=$((128 + 6 * LARGEST_REQUEST_MIB)) USERS_GO_MIB=$((128 + 5 * LARGEST_REQUEST_MIB))
  export RIDES_MEMORY_MIB=$((256 + 4 * LARGEST_REQUEST_MIB)) RIDES_GO_MIB=$((256 + 3 * LARGEST_REQUEST_MIB)) # as many connections as the gateway passes on
  export RABBITMQ_MEMORY_MIB=$((512 + 8 * LARGEST_REQUEST_MIB))
}

settings() {
  read_settings
  : "${PROJECT:=rideshare}" "${BIND:=127.0.0.1}" "${GATEWAY_PORT:=8080}" "${ORCHESTRATOR_PORT:=8083}"
  case $BIND in localhost) BIND=127.0.0.1 ;; '['*']') BIND=${BIND:1:-1} ;; esac # compose wants an address
  check_project "$PROJECT"
  : "${STACK_DIR:=$PWD/.stack/$PROJECT}"
  export PROJECT BIND GATEWAY_PORT ORCHESTRATOR_PORT COMPOSE_PROJECT_NAME=$PROJECT
  export STACK_SECRETS=$STACK_DIR/secrets STACK_NETWORK=${PROJECT}_data
  export RABBITMQ_CONFIG=$(checksum deploy/rabbitmq/*) ZOOKEEPER_CONFIG=$(checksum deploy/zookeeper/zoo.cfg) POSTGRES_CONFIG=$(checksum deploy/postgres/start.sh)
  size_memory
  find_socket
  choose_auth
  choose_tls
  choose_hosts
  choose_observe && choose_postgres
}

images() {
  mkdir -p "$STACK_DIR"
  deploy/images.sh "$STACK_DIR/images"
}

# use_images exports the images that deploy/images.sh chose, also in a later run of this script.
use_images() {
  [ -s "$STACK_DIR/images" ] || die "there is no stack $PROJECT; make up makes one"
  set -a
  . "$STACK_DIR/images"
  : "${WORKER_IMAGE:=$RIDESHARE_IMAGE}" # the file of an older version has none
  set +a
  ! has observe || export STACK_ADMIN=:9550 # where the gateway's own metrics are
}

# ours prints the docker argument that selects the objects of this stack.
ours() { echo "--filter=label=com.docker.compose.project=$PROJECT"; }

# our_volumes prints the volumes of the stack by name: compose removes a volume by its name, even one that it did not make and that has
# no label. The volumes of a project ours_x do not belong to a project ours.
our_volumes() { { docker volume ls -q "$(ours)"; docker volume ls -q --filter "name=^${PROJECT}_[a-z0-9]*\$"; } | sort -u; }

up() {
  local began=$SECONDS reason before volumes
  check_tls
  need_compose
  free_ports GATEWAY_PORT ORCHESTRATOR_PORT $([ "$OBSERVE" = 0 ] || echo PROMETHEUS_PORT)
  before=$(docker ps -aq "$(ours)") volumes=$(our_volumes)
  images
  use_images
  check_postgres "$volumes"
  ! has grafana || free_ports GRAFANA_PORT
  deploy/secrets.sh "$STACK_SECRETS"
  copy_tls
  write_prometheus
  if other_scheme; then
    note "the parts speak $STACK_SCHEME from now on: all are made again"
    down
  fi
  drop_observers
  note "starting $PROJECT"
  local until=$((SECONDS + ready_limit))
  start && wait_ready || give_up
  note "ready after $((SECONDS - began)) s"
  greet
}

# free_ports NAME... ends the script if another program listens on one of these ports. Ports of this stack itself are fine.
free_ports() {
  local name port host taken=
  for name; do
    port=${!name} host=$BIND
    case $name in PROMETHEUS_PORT | GRAFANA_PORT) host=127.0.0.1 ;; esac
    case $host in 0.0.0.0 | '') host=127.0.0.1 ;; ::) host=::1 ;; esac
    [ -z "$(docker ps -q "$(ours)" --filter "publish=$port")" ] || continue
    (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null || continue
    note "port $port ($name) is taken by $(holder "$port")"
    taken=1
  done
  [ -z "$taken" ] || die "nothing was started; end what has the port, or set another port"
}

# holder names the program that listens on a port.
holder() {
  local who
  who=$(docker ps --filter "publish=$1" --format 'container {{.Names}}' | head -n 1)
  [ -n "$who" ] || who=$(ss -Hltnp "sport = :$1" 2>/dev/null | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/\1, pid \2/p' | head -n 1) || true
  echo "${who:-another program}"
}

# give_up ends a failed start. It removes what the start has made, and keeps the logs, the data, and a stack that ran before.
give_up() {
  show_sick
  [ -z "$before" ] || die "$reason; make logs shows more, make down removes the stack"
  keep_logs "$STACK_DIR/failed.log"
  if [ -n "$volumes" ]; then down; else down --volumes; fi
  die "it did not start: $reason; what it made is removed, its logs are in $STACK_DIR/failed.log"
}

# ready_limit is how long a start may take, in seconds. Most of the time is RabbitMQ's on a busy machine.
ready_limit=180

# start lets compose start all services, in order, and tries again: compose gives up at the first service that is unhealthy when it
# looks, though the service may only be restarting.
start() {
  local said
  said=$(mktemp)
  # Compose takes workers for orphans and would warn. They are no orphans, and go on while a setting changes.
  until COMPOSE_IGNORE_ORPHANS=1 compose up -d --no-build 2>&1 | tee "$said" | sed '/^$/d; s/^/stack: /' >&2; do
    grep -q 'is unhealthy' "$said" && [ $SECONDS -lt $until ] || { because "$said"; return 1; }
    note "not all are healthy; trying again"
    sleep 2
  done
  rm -f "$said"
}

# because FILE sets reason to the reason of a failure that compose has written to FILE, in one line, and removes FILE.
because() {
  reason=$({ grep -i error "$1" || cat "$1"; } | grep -v -e '^$' -e 'Encountered errors while' | tail -n 1 | cut -c1-500) || true
  : "${reason:=docker-compose failed without a reason}"
  rm -f "$1"
}

# wait_ready waits until every container but the workers is healthy. The stack is not ready if the engine gives no answer.
wait_ready() {
  local waiting= told=
  while [ $SECONDS -lt $until ]; do
    waiting=$(docker ps -a "$(ours)" --format '{{.Label "com.docker.compose.service"}} {{.Status}}' 2>/dev/null | grep -v '^worker ') || waiting=engine
    waiting=$(grep -v '(healthy)' <<<"$waiting") || return 0
    waiting=$(cut -d' ' -f1 <<<"$waiting" | tr '\n' ' ')
    [ "$waiting" = "$told" ] || note "waiting for $waiting"
    told=$waiting
    sleep 0.3
  done
  reason="not ready in $ready_limit s: $told"
  return 1
}

show_sick() {
  local id
  docker ps -a "$(ours)" --format '{{.Names}}: {{.Status}}' >&2
  for id in $(docker ps -aq "$(ours)" --filter health=unhealthy) $(docker ps -aq "$(ours)" --filter status=exited); do
    note "last lines of $(docker inspect -f '{{.Name}}' "$id")"
    docker logs --tail 5 "$id" 2>&1 | cut -c1-500 >&2
  done
}

greet() {
  local host=$BIND gateway orchestrator curl='curl -i'
  case $host in 0.0.0.0 | :: | '') host=$(hostname) ;; *:*) host="[$host]" ;; esac
  gateway=$STACK_SCHEME://$host:$GATEWAY_PORT orchestrator=$STACK_SCHEME://$host:$ORCHESTRATOR_PORT
  [ $STACK_SCHEME = http ] || curl="curl --cacert $TLS_DIR/ca.pem -i"
  cat <<END
rideshare is ready
  gateway       $gateway
  orchestrator  $orchestrator
END
  greet_observers
  if [ -n "$STACK_AUTH_FILE" ]; then
    echo "  credentials   $STACK_SECRETS/api-credentials, for the orchestrator's crash and database routes"
  fi
  cat <<END

try:
  $curl -X PUT $gateway/api/v1/users -d '{"username":"ann","password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}'
  $curl $gateway/api/v1/users
END
}

# down ends the orchestrator and the launcher, and removes workers, containers and networks. It selects them by label, never by name.
down() {
  need_compose
  local volumes=()
  case ${1:-} in
    '') ;;
    --volumes) volumes=(--volumes) ;;
    *) die "down: $1 is not allowed; allowed: --volumes" ;;
  esac
  # Containers can be removed even if their image is missing.
  [ ! -s "$STACK_DIR/images" ] || use_images
  : "${RIDESHARE_IMAGE:=none}" "${WORKER_IMAGE:=none}" "${RABBITMQ_IMAGE:=none}" "${ZOOKEEPER_IMAGE:=none}"
  export RIDESHARE_IMAGE WORKER_IMAGE RABBITMQ_IMAGE ZOOKEEPER_IMAGE
  # The parts that start workers end first, so that no worker is started afterwards.
  compose stop -t 10 orchestrator launcher >/dev/null 2>&1 || true
  local workers network
  workers=$(docker ps -aq "$(ours)" --filter label=com.docker.compose.service=worker)
  # shellcheck disable=SC2086 # a list of ids
  [ -z "$workers" ] || docker rm -f $workers >/dev/null
  for network in $(docker network ls --format '{{.Name}}' "$(ours)"); do disconnect_others "$network" com.docker.compose.project "$PROJECT"; done
  COMPOSE_PROFILES=observe,grafana,postgres compose down --remove-orphans "${volumes[@]}" 2>&1 | sed 's/^/stack: /' >&2
  [ ${#volumes[@]} = 0 ] || rm -f "$STACK_DIR/postgres"
  left
}

# left ends the script if something of the stack is still there.
left() {
  local what
  what=$(docker ps -aq "$(ours)"; docker network ls -q "$(ours)")
  [ -z "$what" ] || die "could not remove: $(tr '\n' ' ' <<<"$what")"
}

ps_stack() { docker ps -a "$(ours)" --format 'table {{.Names}}\t{{.Status}}\t{{.Ports}}'; }

[ $# -gt 0 ] || { sed -n '5,13s/^# *//p' "$0" >&2; exit 2; }
verb=$1
shift
settings
case $verb in
  up) up "$@" ;;
  down) down "$@" ;;
  restore) restore "$@" ;;
  logs) logs "$@" ;;
  ps) ps_stack ;;
  images) need_compose; images ;;
  compose) use_images; compose "$@" ;;
  *) sed -n '5,13s/^# *//p' "$0" >&2; exit 2 ;;
esac
