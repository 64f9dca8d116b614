# The services as containers, for a machine on which you have docker but not root.
# Sourced by services.sh.

# container_image SERVICE prints the image of the service, or nothing for PostgreSQL.
container_image() {
  case $1 in
    rabbitmq) echo "${RABBITMQ_IMAGE:-rabbitmq:3.10}" ;;
    zookeeper) echo "${ZOOKEEPER_IMAGE:-zookeeper:3.8}" ;;
  esac
}

# The name depends on the directory, so that checkouts do not collide.
container_name() { echo "rideshare-$1-$(printf %s "$dir" | cksum | cut -d' ' -f1)"; }

container_possible() {
  command -v docker >/dev/null && docker info >/dev/null 2>&1 || return 1
  local image
  image=$(container_image "$1")
  [ -n "$image" ] || return 1
  if docker image inspect "$image" >/dev/null 2>&1; then return; fi
  [ "${SERVICES_INSTALL:-yes}" = yes ] && timeout 240 docker pull "$image" >&2
}

container_is() { [ "$(docker inspect -f "{{.State.$2}}" "$(container_name "$1")" 2>/dev/null)" = true ]; }
container_alive() { container_is "$1" Running; }
container_kill() { docker kill "$(container_name "$1")" >/dev/null; }
container_wipe() { container_stop "$1"; } # its data goes with it
container_pause() { docker pause "$(container_name "$1")" >/dev/null; }
container_resume() { docker unpause "$(container_name "$1")" >/dev/null; }
container_stop() { docker rm -fv "$(container_name "$1")" >/dev/null 2>&1 || true; }

# container_start SERVICE PORT OPTIONS... starts the container, a killed one with its data.
container_start() {
  local service=$1 port=$2 name
  shift 2
  name=$(container_name "$service")
  if docker start "$name" >/dev/null 2>&1; then return; fi
  container_stop "$service"
  docker run -d --name "$name" -p "127.0.0.1:$(port_of "$service" client):$port" "$@" \
    "$(container_image "$service")" >>"$dir/$service/out"
}

container_pid() { docker inspect -f '{{.State.Pid}}' "$(container_name "$1")"; }
