# docker-compose, in either of its forms; deploy/stack.sh and deploy/cluster/cluster.sh read this file, which have note and die.

compose_options=()
compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "${compose_options[@]}" "$@"; else docker-compose "${compose_options[@]}" "$@"; fi
}

need_compose() {
  docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    note "installing docker-compose"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=120 docker-compose >/dev/null
  else
    die "docker-compose is missing (Debian: apt-get install docker-compose)"
  fi
}
