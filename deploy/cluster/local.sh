#!/usr/bin/env bash
# Three hosts of a cluster on this machine, to try it and to test it: `make up-cluster`. A host is a network of its own, that of a
# container that does nothing else; each host has the containers that cluster.sh makes.
#
#   deploy/cluster/local.sh up      make and start a, b and c, and wait until all are ready
#   deploy/cluster/local.sh down    remove them with their data, settings and network
#
# PROJECT names the cluster (cluster); its settings are in .cluster/PROJECT. It works where containers of this machine can be
# reached by their addresses, as on Linux.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/composelib.sh
cluster=${PROJECT:-cluster} dir=$PWD/.cluster/${PROJECT:-cluster} hosts='a b c' network=

note() { echo "cluster: $*" >&2; }
die() { note "$*"; exit 1; }
check_project "$cluster"

networks() { docker network ls -q --filter "label=rideshare.cluster=$cluster"; }

# on HOST VERB ARG...: cluster.sh for the host, in the network of its container or in $network.
on() {
  local host=$1 verb=$2
  shift 2
  PROJECT=$cluster-$host HOST_NETWORK=${network:-container:$cluster-$host} deploy/cluster/cluster.sh "$verb" "$dir/$host" "$@"
}

# make_hosts makes the network, and in it a container for each host.
make_hosts() {
  local host all=()
  docker network create "$cluster" --label "rideshare.cluster=$cluster" >/dev/null
  . "$dir.images"
  for host in $hosts; do
    docker run -d --init --name "$cluster-$host" --hostname "$host" --label "rideshare.cluster=$cluster" --network "$cluster" \
      --entrypoint sleep "$ZOOKEEPER_IMAGE" infinity >/dev/null
    all+=("$host=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$cluster-$host")")
  done
  deploy/cluster/init.sh "$dir" "${all[@]}"
  for host in $hosts; do cp "$dir.images" "$dir/$host/images"; done
}

up() {
  local host began=$SECONDS
  [ ! -e "$dir" ] || die "$dir exists: make down-cluster removes the cluster"
  [ -z "$(networks)" ] || die "the network $cluster is left of an earlier start: make down-cluster removes it"
  mkdir -p "${dir%/*}"
  POSTGRES=1 deploy/images.sh "$dir.images"
  make_hosts
  for host in $hosts; do on "$host" up; done
  on a queues
  for host in $hosts; do on "$host" wait; done
  note "ready after $((SECONDS - began)) s; credentials in $dir/api-credentials, the CA in $dir/ca.pem. Try:"
  echo "  curl --cacert $dir/ca.pem -H \"Authorization: Bearer \$(cut -d' ' -f2 $dir/api-credentials)\" https://$(sed -n 's/^HOST_ADDRESS=//p' "$dir/a/settings"):8083/api/v1/cluster"
}

down() {
  local host ids network=host # compose would look for the container of a host, which may be gone
  for host in $hosts; do [ ! -e "$dir/$host/settings" ] || on "$host" down --volumes; done
  ids=$(docker ps -aq --filter "label=rideshare.cluster=$cluster")
  # shellcheck disable=SC2086 # a list of ids
  [ -z "$ids" ] || docker rm -f $ids >/dev/null
  rm -rf "$dir" "$dir.new" "$dir.images"
  [ -n "$(networks)" ] || return 0
  disconnect_others "$cluster" rideshare.cluster "$cluster"
  docker network rm "$cluster" >/dev/null
}

case ${1-} in
  up) up ;;
  down) down ;;
  *) sed -n '5,6s/^# *//p' "$0" >&2; exit 2 ;;
esac
