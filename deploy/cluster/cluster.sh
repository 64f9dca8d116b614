#!/usr/bin/env bash
# One host of a cluster of three, in containers. DIR is what deploy/cluster/init.sh made for this host; docs/CLUSTER.md has the steps.
#
#   deploy/cluster/cluster.sh up DIR                 build or find the images and start all parts; at the first start on each host, then queues on one
#   deploy/cluster/cluster.sh up DIR --build         the same with images of this checkout, though others are there: an upgrade
#   deploy/cluster/cluster.sh queues DIR             once, when all hosts are up: declare the queues on all three
#   deploy/cluster/cluster.sh wait DIR               until this host's orchestrator is ready
#   deploy/cluster/cluster.sh promote DIR NAME       the host NAME, which has PostgreSQL's primary, is lost: promote the better standby
#   deploy/cluster/cluster.sh check DIR              rideshare check of the whole system
#   deploy/cluster/cluster.sh down DIR [--volumes]   remove this host's containers; with --volumes its data too
#   deploy/cluster/cluster.sh logs|ps DIR [SERVICE]  its containers
#   deploy/cluster/cluster.sh compose DIR ARG...     anything else of docker-compose
#
# PROJECT names the containers of a host (rideshare-cluster).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/composelib.sh

note() { echo "cluster: $*" >&2; }
die() { note "$*"; exit 1; }
usage() { sed -n '4,14s/^# *//p' deploy/cluster/cluster.sh >&2; exit 2; }

[ $# -ge 2 ] || usage
verb=$1 given=$2
shift 2
cd "$OLDPWD" && dir=$(cd "$given" 2>/dev/null && pwd -P) || die "$given is no directory of deploy/cluster/init.sh"
cd "$OLDPWD"
[ -r "$dir/settings" ] || die "$dir/settings is not there or cannot be read: deploy/cluster/init.sh makes it"
: "${PROJECT:=rideshare-cluster}"

# load sets the settings of the host: what compose.yml names, and what this script and images.sh read.
load() {
  local line known
  known=" PROJECT HOST_NAME OTHER_HOSTS ALLOWED_HOSTS IMAGES $(grep -o '\${[A-Z_]*' deploy/cluster/compose.yml | tr -d '${' | grep -vxE 'CLUSTER_HOSTS|COMPOSE_PROJECT_NAME|HOST_DIR|POSTGRES_COMMAND|.*_CONFIG' | tr '\n' ' ')"
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in '#'* | '') continue ;; esac
    [[ $line = *=* && $known = *" ${line%%=*} "* ]] || die "$dir/settings: ${line%%=*} is no setting of a cluster, or has no value; lines are NAME=value"
    export "${line?}"
  done <"$dir/settings"
  compose_options=(--env-file deploy/cluster/none.env) # otherwise compose reads .env, which is the stack's
  export COMPOSE_PROJECT_NAME=$PROJECT COMPOSE_FILE=deploy/cluster/compose.yml HOST_DIR=$dir
  export POSTGRES_COMMAND="$HOST_NAME /etc/rideshare/first/database $OTHER_HOSTS"
  export RABBITMQ_CONFIG=$(checksum "$dir/rabbitmq.conf" deploy/rabbitmq/{rabbitmq.conf,enabled_plugins} deploy/cluster/rabbitmq.sh)
  export ZOOKEEPER_CONFIG=$(checksum "$dir/zoo.cfg") POSTGRES_CONFIG=$(checksum deploy/postgres/start.sh)
  # Where names are limited, those by which the other hosts call gateway and orchestrator are allowed.
  export CLUSTER_HOSTS=${ALLOWED_HOSTS:+$ALLOWED_HOSTS,$(echo "$HOST_ADDRESS" $(others) | tr ' ' ,)}
}

# load_images sets the images of the host. While none are known, it is enough for all but up that compose gets some name, and the
# command is in the image that images.sh made last.
load_images() {
  [ ! -s "$dir/images" ] || . "$dir/images"
  : "${RIDESHARE_IMAGE:=rideshare/rideshare:local}" "${RABBITMQ_IMAGE:=none}" "${ZOOKEEPER_IMAGE:=none}" "${POSTGRES_IMAGE:=none}"
  export RIDESHARE_IMAGE RABBITMQ_IMAGE ZOOKEEPER_IMAGE POSTGRES_IMAGE
}

# others: the addresses of the other hosts, but for the host $1.
others() {
  local host
  for host in $OTHER_HOSTS; do
    [ "${host%%=*}" = "${1-}" ] || echo "${host#*=}"
  done
}

names() { echo "$HOST_NAME $OTHER_HOSTS" | sed 's/=[^ ]*//g'; }

rideshare() { # rideshare ARG...: the command, on this host
  docker run --rm --network "${HOST_NETWORK:-host}" -v "$dir/tls:/run/tls:ro" -v "$dir/secrets:/run/secrets:ro" \
    -e TLS_CERT=/run/tls/cert.pem -e TLS_KEY=/run/tls/key.pem -e TLS_CA=/run/tls/ca.pem "$RIDESHARE_IMAGE" "$@"
}

up() {
  case ${1-} in '' | --build) ;; *) usage ;; esac
  need_compose
  if [ "${1-}" = --build ] || [ ! -s "$dir/images" ]; then POSTGRES=1 deploy/images.sh "$dir/images"; fi
  load_images
  compose up -d --no-build 2>&1 | sed '/^$/d; s/^/cluster: /' >&2
}

wait_ready() {
  local until=$((SECONDS + 180)) said=
  until said=$(rideshare healthcheck https://127.0.0.1:8083 2>&1); do
    [ $SECONDS -lt $until ] || die "not ready in 180 s: $said; cluster.sh logs $dir shows more"
    sleep 1
  done
  rm -f "$dir/first/database" # it is there, and must not be made again
  note "$HOST_NAME is ready: https://$HOST_ADDRESS:8080 (gateway), https://$HOST_ADDRESS:8083 (orchestrator, console)"
}

promote() {
  [ $# = 1 ] || usage
  local servers
  case " $(names) " in *" $1 "*) ;; *) die "there is no host $1; the hosts are $(names)" ;; esac
  servers=$(others "$1")
  [ "$1" = "$HOST_NAME" ] || servers="$HOST_ADDRESS $servers"
  # A silent primary is waited for, but no longer than a failover takes.
  # shellcheck disable=SC2086 # a list
  PGUSER=postgres PGPASSWORD=$(cat "$dir/secrets/postgres-superuser") PGCONNECT_TIMEOUT=2 \
    deploy/postgres/promote.sh --names "$(names | tr ' ' ,)" $servers
}

down() {
  local volumes=()
  case ${1-} in '') ;; --volumes) volumes=(--volumes) ;; *) usage ;; esac
  need_compose
  compose down "${volumes[@]}" 2>&1 | sed '/^$/d; s/^/cluster: /' >&2
}

load
[ "$verb" = up ] || load_images
case $verb in
  up) up "$@" ;;
  # A node that hangs at its first start is ended after a minute (rabbitmq.sh), and starts again.
  queues) rideshare queues --wait 4m --bus-file /run/secrets/operator-bus ;;
  wait) wait_ready ;;
  promote) promote "$@" ;;
  check) rideshare check --orchestrator https://127.0.0.1:8083 --persdb "$PERSDB_URLS" --auth-file /run/secrets/api-credentials ;;
  down) down "$@" ;;
  logs) compose logs -f --tail=100 "$@" ;;
  ps) compose ps "$@" ;;
  compose) compose "$@" ;;
  *) usage ;;
esac
