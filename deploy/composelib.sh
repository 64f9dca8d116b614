# docker-compose, version 1 or 2, and the engine's networks. The scripts that source this file define note and die.

compose_options=()
compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "${compose_options[@]}" "$@"; else docker-compose "${compose_options[@]}" "$@"; fi
}

need_compose() {
  command -v docker >/dev/null || die "docker is missing (Debian: apt-get install docker.io docker-compose)"
  docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    note "installing docker-compose"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=120 docker-compose >/dev/null
  else
    die "docker-compose is missing (Debian: apt-get install docker-compose)"
  fi
}

# disconnect_others NETWORK LABEL VALUE disconnects the containers whose LABEL is not VALUE: a network that has containers cannot be
# removed.
disconnect_others() {
  local name value
  while read -r name value; do
    [ "$value" != "$3" ] || continue
    note "disconnecting $name from the network $1, which goes"
    docker network disconnect -f "$1" "$name" >&2 || true # it may have ended
  done < <(docker ps --filter "network=$1" --format "{{.Names}} {{.Label \"$2\"}}")
}

# check_project NAME ends the script unless docker-compose accepts NAME as the name of a project.
check_project() { [[ $1 =~ ^[a-z0-9][a-z0-9_-]+$ ]] || die "PROJECT is $1; allowed: small letters, digits, - and _"; }

# checksum FILE... prints a checksum. Compose compares the paths of mounted files, not their contents. With the checksum as a label,
# `up` replaces a container whose files have changed.
checksum() { cat "$@" | cksum | cut -d' ' -f1; }
