#!/usr/bin/env bash
# The stack of docker-compose.yml, with what compose alone cannot know: which images there are, where the secrets lie,
# which group may use the engine's socket, and which workers belong to it.
#
#   deploy/stack.sh up                 build what is missing, start, wait until ready, say where it is; OBSERVE=1: with Prometheus; POSTGRES=1: with PostgreSQL
#   deploy/stack.sh down [--volumes]   remove it, workers and networks included; with --volumes the data too
#   deploy/stack.sh restore FOLDER     put a data folder in the place of the data, while nothing runs
#   deploy/stack.sh logs [SERVICE...]  follow the logs; without SERVICE those of the workers too
#   deploy/stack.sh ps                 its containers
#   deploy/stack.sh images             only find or make the images
#   deploy/stack.sh compose ARG...     anything else of docker-compose
#
# Settings are in .env.example. PROJECT names the stack: several run side by side with different names and ports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for part in composelib.sh logs.sh observe.sh postgres/stack.sh restore.sh; do . "deploy/$part"; done

note() { echo "stack: $*" >&2; }
die() { note "$*"; exit 1; }

# What stands in .env counts unless the environment says otherwise, and quotes and comments are no part of a value, as compose
# has it.
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

# The socket of the engine that docker speaks to, and its group.
find_socket() {
  case ${DOCKER_HOST:-} in
    unix://*) : "${DOCKER_SOCKET:=${DOCKER_HOST#unix://}}" ;;
    '') : "${DOCKER_SOCKET:=/var/run/docker.sock}" ;;
    *) [ -n "${DOCKER_SOCKET:-}" ] || die "DOCKER_HOST is $DOCKER_HOST; the launcher needs a socket of that machine: set DOCKER_SOCKET and DOCKER_GID" ;;
  esac
  : "${DOCKER_GID:=$(stat -L -c %g "$DOCKER_SOCKET" 2>/dev/null || echo 0)}"
  export DOCKER_SOCKET DOCKER_GID
}

# Without authentication only for this machine: whoever opens the stack to others gets it unless he says no.
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

# With TLS_DIR all our parts speak https, which a second compose file says. Compose reads docker-compose.override.yml by
# itself only as long as nobody names files.
choose_tls() {
  STACK_SCHEME=http
  [ -n "${TLS_DIR:-}" ] || return 0
  STACK_SCHEME=https
  : "${COMPOSE_FILE:=docker-compose.yml$([ ! -e docker-compose.override.yml ] || echo :docker-compose.override.yml)}"
  export COMPOSE_FILE=$COMPOSE_FILE:deploy/docker-compose.tls.yml
}

tls_files='cert.pem key.pem ca.pem'

# check_tls ends unless the files of TLS_DIR are there.
check_tls() {
  local file
  [ $STACK_SCHEME = https ] || return 0
  for file in $tls_files; do
    [ -r "$TLS_DIR/$file" ] || die "TLS_DIR is $TLS_DIR; $file is not there or cannot be read. It needs a certificate (cert.pem), its key (key.pem) and the CA (ca.pem)"
  done
}

# copy_tls copies the files of TLS_DIR to where containers can read them, each whole or not at all. Parts that run read
# changed files again.
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

# other_scheme: workers run whose scheme is not that of the settings. They would reach no other part, and none would
# reach them.
other_scheme() {
  local urls
  urls=$(docker ps -a "$(ours)" --filter label=com.docker.compose.service=worker --format '{{.Label "rideshare.control"}}')
  [ -n "$urls" ] && grep -qv "^$STACK_SCHEME://" <<<"$urls"
}

# What is published for this machine alone must not answer a web page whose own name resolves to it. Where names are limited,
# those by which the other parts call gateway and orchestrator are allowed.
choose_hosts() {
  case ${BIND:-127.0.0.1} in
    127.* | ::1) STACK_HOSTS=gateway,orchestrator${ALLOWED_HOSTS:+,$ALLOWED_HOSTS} ;;
    *) STACK_HOSTS=${ALLOWED_HOSTS:+gateway,orchestrator,$ALLOWED_HOSTS} ;;
  esac
  export STACK_HOSTS
}

# size_memory: what each part may use, from the largest request and the room for a replica. A part holds a request several
# times on its way. For persdb that was measured: one commit and three readers of its entry take 800 MiB at 60 MiB. Go keeps to
# its share by collecting more often; the rest is the engine's, the page cache's and for what cannot wait.
size_memory() {
  : "${LARGEST_REQUEST_MIB:=64}" "${WORKER_REPLICA_MIB:=256}"
  [[ $LARGEST_REQUEST_MIB =~ ^[1-9][0-9]*$ && $LARGEST_REQUEST_MIB -ge 64 ]] || die "LARGEST_REQUEST_MIB is $LARGEST_REQUEST_MIB; allowed: 64 and more, since such a request is legal"
  # Room for two replicas: the one that is served, and the next one or the WAL.
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

# use_images takes what images chose, also later and in another shell.
use_images() {
  [ -s "$STACK_DIR/images" ] || die "there is no stack $PROJECT; make up makes one"
  set -a
  . "$STACK_DIR/images"
  : "${WORKER_IMAGE:=$RIDESHARE_IMAGE}" # the file of an older version has none
  set +a
  ! has observe || export STACK_ADMIN=:9550 # where the gateway's own metrics are
}

# ours: the docker argument that selects what belongs to this stack.
ours() { echo "--filter=label=com.docker.compose.project=$PROJECT"; }

# our_volumes: compose removes a volume by its name, also one that it did not make and that has no label. The volumes of a project ours_x
# are not those of a project ours.
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

# free_ports NAME... ends if another program has one of these ports. What this stack has itself stays as it is.
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

# holder names who listens on a port.
holder() {
  local who
  who=$(docker ps --filter "publish=$1" --format 'container {{.Names}}' | head -n 1)
  [ -n "$who" ] || who=$(ss -Hltnp "sport = :$1" 2>/dev/null | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/\1, pid \2/p' | head -n 1) || true
  echo "${who:-another program}"
}

# give_up ends a start that failed. What it made goes, its logs stay. A stack that was there before stays, and so does its data.
give_up() {
  show_sick
  [ -z "$before" ] || die "$reason; make logs shows more, make down removes the stack"
  keep_logs "$STACK_DIR/failed.log"
  if [ -n "$volumes" ]; then down; else down --volumes; fi
  die "it did not start: $reason; what it made is removed, its logs are in $STACK_DIR/failed.log"
}

# ready_limit is how long a start may take, in seconds: most of it is RabbitMQ on a busy machine.
ready_limit=180

# start has compose start everything, in order. It gives up at the first part that is unhealthy when it looks, which
# one that is just being started again may be.
start() {
  local said
  said=$(mktemp)
  # To compose workers look like orphans; they are not, and go on while a setting changes.
  until COMPOSE_IGNORE_ORPHANS=1 compose up -d --no-build 2>&1 | tee "$said" | sed '/^$/d; s/^/stack: /' >&2; do
    grep -q 'is unhealthy' "$said" && [ $SECONDS -lt $until ] || { because "$said"; return 1; }
    note "not all are healthy; trying again"
    sleep 2
  done
  rm -f "$said"
}

# because keeps compose's own reason of a failure, in one line, and removes the file that has it.
because() {
  reason=$({ grep -i error "$1" || cat "$1"; } | grep -v -e '^$' -e 'Encountered errors while' | tail -n 1 | cut -c1-500) || true
  : "${reason:=docker-compose failed without a reason}"
  rm -f "$1"
}

# wait_ready: every container that has a check is healthy. No answer of the engine, or no container, is not ready.
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

# down ends the orchestrator and the launcher, and removes workers, containers and networks, by label and never by name.
down() {
  need_compose
  local volumes=()
  case ${1:-} in
    '') ;;
    --volumes) volumes=(--volumes) ;;
    *) die "down: $1 is not allowed; allowed: --volumes" ;;
  esac
  # An image need not be there to remove what was made of it.
  [ ! -s "$STACK_DIR/images" ] || use_images
  : "${RIDESHARE_IMAGE:=none}" "${WORKER_IMAGE:=none}" "${RABBITMQ_IMAGE:=none}" "${ZOOKEEPER_IMAGE:=none}"
  export RIDESHARE_IMAGE WORKER_IMAGE RABBITMQ_IMAGE ZOOKEEPER_IMAGE
  # Who makes workers ends first; then nobody makes another one.
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

# left complains of what is not gone.
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
