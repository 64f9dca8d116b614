#!/usr/bin/env bash
# One host of a cluster of three, in containers. DIR is what deploy/cluster/init.sh made for this host; docs/CLUSTER.md has the steps.
#
#   deploy/cluster/cluster.sh up DIR                 build or find the images and start all parts; at the first start on each host, then queues on one
#   deploy/cluster/cluster.sh up DIR --build         the same with images of this checkout, though others are there: an upgrade
#   deploy/cluster/cluster.sh queues DIR             once, when all hosts are up: declare the queues on all three
#   deploy/cluster/cluster.sh wait DIR               until this host's orchestrator is ready
#   deploy/cluster/cluster.sh whole DIR              until all is whole again, so that one host may be taken away
#   deploy/cluster/cluster.sh promote DIR NAME       the host NAME, which has PostgreSQL's primary, is lost: promote the better standby
#   deploy/cluster/cluster.sh check DIR              rideshare check of the whole system
#   deploy/cluster/cluster.sh down DIR [--volumes]   remove this host's containers; with --volumes its data too
#   deploy/cluster/cluster.sh logs|ps DIR [SERVICE]  its containers
#   deploy/cluster/cluster.sh compose DIR ARG...     anything else of docker-compose
#
# PROJECT names the containers of a host (rideshare-cluster). WAIT_LIMIT is after how many seconds wait (180) and whole (240) give up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/composelib.sh

note() { echo "cluster: $*" >&2; }
die() { note "$*"; exit 1; }
usage() { sed -n '4,15s/^# *//p' deploy/cluster/cluster.sh >&2; exit 2; }

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

# hosts: all hosts, as NAME=ADDRESS.
hosts() { echo "$HOST_NAME=$HOST_ADDRESS $OTHER_HOSTS"; }

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

# limit_or SECONDS sets limit to WAIT_LIMIT, or to SECONDS if that is not set, and until to the time at which it has passed.
limit_or() {
  limit=${WAIT_LIMIT:-$1}
  [[ $limit =~ ^(0|[1-9][0-9]{0,5})$ ]] || die "WAIT_LIMIT is $limit, want a number of seconds"
  until=$((SECONDS + limit))
}

wait_ready() {
  local limit until said=
  limit_or 180
  until said=$(rideshare healthcheck https://127.0.0.1:8083 2>&1); do
    [ $SECONDS -lt $until ] || die "not ready in $limit s: $said; cluster.sh logs $dir shows more"
    sleep 1
  done
  rm -f "$dir/first/database" # it is there, and must not be made again
  note "$HOST_NAME is ready: https://$HOST_ADDRESS:8080 (gateway), https://$HOST_ADDRESS:8083 (orchestrator, console)"
}

whole() {
  [ $# = 0 ] || usage
  local limit until missing='' said=
  limit_or 240
  command -v psql >/dev/null || die 'psql is missing (Debian: apt-get install postgresql-client)'
  until missing=$(look); do
    [ $SECONDS -lt $until ] || die "not whole in $limit s: $missing"
    [ "$missing" = "$said" ] || note "not whole yet: $missing"
    said=$missing
    sleep 1
  done
  note "all is whole: one host may be taken away"
}

# look returns 0 if all is whole. Otherwise it prints the first thing that is missing, as do the functions that it calls.
look() {
  whole_parts &&
    whole_servers PostgreSQL ask_postgres 'primary with 2 standbys, standby, standby' &&
    whole_servers ZooKeeper ask_zookeeper 'follower, follower, leader' &&
    whole_rabbitmq
}

# container SERVICE: this host's container of the service, or why there is none.
container() {
  local id
  id=$(docker ps -q --filter "label=com.docker.compose.project=$PROJECT" --filter "label=com.docker.compose.service=$1" 2>&1) && [ -n "$id" ] ||
    { echo "$1 does not run on this host${id:+: $id}"; return 1; }
  echo "$id"
}

# whole_parts: gateway, orchestrator and persdb must be ready on each host.
whole_parts() {
  local host id part said
  id=$(container orchestrator) || { echo "$id"; return 1; }
  said=$(for host in $(hosts); do
    for part in gateway:8080 orchestrator:8083 persdb:9530; do
      said=$(docker exec "$id" /rideshare healthcheck "https://${host#*=}:${part#*:}" 2>&1) || echo "${part%:*} of ${host%%=*}: $said" &
    done
    wait # no more at the same time: they share the orchestrator's memory
  done | sort)
  [ -z "$said" ] || { echo "${said//$'\n'/; }"; return 1; }
}

# whole_servers NAME ASK WANT: what `ASK ADDRESS` prints of the hosts' servers must be WANT, in any order.
whole_servers() {
  local host said sorted seen='' all=()
  for host in $(hosts); do
    said=$("$2" "${host#*=}" 2>&1) || said="no answer (${said%%$'\n'*})"
    all+=("${said:-no answer}") seen+="${host%%=*}: ${said:-no answer}, "
  done
  sorted=$(printf '%s\n' "${all[@]}" | sort)
  [ "${sorted//$'\n'/, }" = "$3" ] || { echo "$1: got ${seen%, }; want $3"; return 1; }
}

# ask_postgres ADDRESS: what the server is. One that is paused accepts connections, so the time is bounded.
ask_postgres() {
  PGUSER=postgres PGDATABASE=postgres PGPASSWORD=$(cat "$dir/secrets/postgres-superuser") PGCONNECT_TIMEOUT=5 timeout 10 psql -wXAtq -h "$1" -p 5432 -c \
    "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE (SELECT 'primary with ' || count(*) || ' standbys' FROM pg_stat_replication WHERE state='streaming') END"
}

# ask_zookeeper ADDRESS: what the server is. One that does not serve prints nothing.
ask_zookeeper() { timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/2181" && printf srvr >&3 && sed -n "s/^Mode: //p" <&3' "$1"; }

# whole_rabbitmq asks every node, since a node that was away may believe to be whole without the others. One node asks the others:
# each start of rabbitmqctl takes seconds. The members of a quorum queue must have what was committed: if another node is lost before
# that, a member that lacks entries may wait two minutes for them, and so do the writes.
whole_rabbitmq() {
  local ask id said want='{[3,3,3],[],[],[true,true]}'
  ask='All = rabbit_mnesia:cluster_nodes(all), {Running, Silent} = rpc:multicall(All, rabbit_mnesia, cluster_nodes, [running], 2000), '
  ask+='{Partitions, _} = rpc:multicall(All, rabbit_node_monitor, partitions, [], 2000), '
  ask+='Status = fun(Q) -> rabbit_quorum_queue:status(<<"/">>, Q) end, Get = fun proplists:get_value/2, '
  ask+='Caught = fun(Q) -> Committed = lists:max([Get(<<"Commit Index">>, M) || M <- Status(Q)]), Now = Status(Q), '
  ask+='lists:sort([Get(<<"Raft State">>, M) || M <- Now]) =:= [follower, follower, leader] andalso '
  ask+='length(lists:usort([Get(<<"Term">>, M) || M <- Now])) =:= 1 andalso lists:all(fun(M) -> Get(<<"Log Index">>, M) >= Committed end, Now) end, '
  ask+='{[length(R) || R <- Running], Silent, lists:append(Partitions), [Caught(Q) || Q <- [<<"writeQ.v3">>, <<"dead.write.v3">>]]}.'
  id=$(container rabbitmq) || { echo "$id"; return 1; }
  said=$(docker exec "$id" timeout 60 rabbitmqctl -q eval "$ask" 2>&1) || said="no answer (${said%%$'\n'*})"
  [[ $said = *"$want"* ]] || { echo "RabbitMQ: got $said, want $want: how many nodes each node finds, the nodes that do not answer, the partitions, and whether the members of the queues have caught up"; return 1; }
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
  whole) whole "$@" ;;
  promote) promote "$@" ;;
  check) rideshare check --orchestrator https://127.0.0.1:8083 --persdb "$PERSDB_URLS" --auth-file /run/secrets/api-credentials ;;
  down) down "$@" ;;
  logs) compose logs -f --tail=100 "$@" ;;
  ps) compose ps "$@" ;;
  compose) compose "$@" ;;
  *) usage ;;
esac
