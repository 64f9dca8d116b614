#!/usr/bin/env bash
# Makes or finds the images of the stack and says which ones it chose.
#
#   deploy/images.sh [OUT]
#
# RIDESHARE_IMAGE is always built here, from this checkout. For RabbitMQ, ZooKeeper, PostgreSQL (with POSTGRES=1) and Prometheus
# (with OBSERVE=1) the script takes the images that RABBITMQ_IMAGE, ZOOKEEPER_IMAGE, POSTGRES_IMAGE and PROMETHEUS_IMAGE name, in the
# environment or in .env. Without a name it takes the official image, or if that cannot be pulled, a stand-in made of Debian's
# packages. IMAGES=official or IMAGES=debian allows only one of the two. Grafana comes with Prometheus if its image can be pulled. The
# choice is written to OUT, as lines NAME=value.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-/dev/null} choice=
# Containers run as other users, which must be able to read the files in the images and the files of deploy that are mounted.
umask 022
find deploy ! -perm -o=r -exec chmod a+rX {} +

official_rabbitmq=rabbitmq:3.13.7
official_zookeeper=zookeeper:3.9.3
official_prometheus=prom/prometheus:v2.53.3
official_postgres=postgres:15.10
official_grafana=grafana/grafana:11.3.0
note() { echo "images: $*" >&2; }
die() { note "$*"; exit 1; }

present() { docker image inspect "$1" >/dev/null 2>&1; }
label() { docker image inspect -f "{{index .Config.Labels \"$2\"}}" "$1" 2>/dev/null || true; }

# An engine without buildx can only use the legacy builder. Its warning that it is deprecated is left out.
build() {
  if docker buildx version >/dev/null 2>&1; then
    docker build "$@"
  else
    DOCKER_BUILDKIT=0 docker build "$@" 2> >(grep -v -e DEPRECATED -e BuildKit -e environment-variable -e '^$' >&2)
  fi
}

# roots prints the certificates of the CAs that this machine trusts.
roots() {
  local file
  for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [ ! -s "$file" ] || { cat "$file"; return; }
  done
  note "rideshare: this machine has no CA certificates (Debian: apt-get install ca-certificates), so an archive at https://... will fail"
}

rideshare() {
  local image=${RIDESHARE_IMAGE:-rideshare/rideshare:local} context=bin/image version revision
  version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
  revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  mkdir -p "$context/data"
  roots >"$context/ca-certificates.crt"
  CGO_ENABLED=0 "${GO:-go}" build -trimpath -ldflags="-s -w -X main.version=$version" -o "$context/rideshare" ./cmd/rideshare
  build -q -t "$image" -f deploy/rideshare/Dockerfile \
    --label org.opencontainers.image.title=rideshare --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.revision=$revision" "$context" >/dev/null
  note "rideshare: $image, version $version"
  # The stack uses the image's id: another build may move the name to another image while the launcher still starts workers.
  choice+=RIDESHARE_IMAGE=$image$'\n'WORKER_IMAGE=$(docker image inspect -f '{{.Id}}' "$image")$'\n'
}

# third NAME VARIABLE OFFICIAL chooses an image of another project, and sets chosen to it.
third() {
  local name=$1 variable=$2 official=$3 image standin=rideshare/$1:debian12
  if [ -n "${!variable:-}" ]; then
    image=${!variable}
    present "$image" || docker pull -q "$image" >/dev/null || die "$variable names $image, which is neither here nor to be pulled"
    note "$name: $image, as $variable says"
  elif [ "${IMAGES:-}" != debian ] && present "$official"; then
    image=$official
    note "$name: the official image $image, which is here"
  elif [ "${IMAGES:-}" != debian ] && { [ "${IMAGES:-}" = official ] || ! present "$standin"; } && pull "$official"; then
    image=$official
    note "$name: the official image $image, pulled"
  elif [ "${IMAGES:-}" = official ]; then
    die "$name: $official cannot be pulled, and IMAGES=official forbids the stand-in"
  else
    image=$standin
    standin "$name" "$image"
  fi
  chosen=$image
  choice+=$variable=$image$'\n'
}

pull() { timeout 300 docker pull -q "$1" >/dev/null 2>&1; }

# standin NAME IMAGE makes the stand-in if it is missing or its recipe has changed.
standin() {
  local name=$1 image=$2 recipe
  recipe=$(cat deploy/debian/unpack.sh deploy/debian/image.sh "deploy/debian/$name".* | cksum | cut -d' ' -f1)
  if [ "$(label "$image" rideshare.recipe)" = "$recipe" ]; then
    note "$name: the stand-in $image, made earlier of Debian's packages (the official image was not to be pulled)"
    return
  fi
  note "$name: $official cannot be had; making the stand-in $image of Debian's packages"
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    die "that needs Debian's apt-get and dpkg-deb. Connect to a registry, or load an image and name it: $variable=..."
  # The files in the image belong to users of the container, which only root can set.
  [ "$(id -u)" = 0 ] ||
    die "that needs root: run 'sudo $PWD/deploy/debian/image.sh $name $image $recipe', then this again. Or connect to a registry, or load an image and name it: $variable=..."
  deploy/debian/image.sh "$name" "$image" "$recipe"
}

# observers chooses the images of Prometheus and Grafana. Debian has no package of Grafana. If Prometheus is a stand-in, no
# registry was reached, so Grafana is not pulled either.
observers() {
  local official=$official_grafana
  profiles+=,observe
  third prometheus PROMETHEUS_IMAGE "$official_prometheus"
  if [ -n "${GRAFANA_IMAGE:-}" ] || present "$official" || { [ "$chosen" = "$official_prometheus" ] && pull "$official"; }; then
    IMAGES=official third grafana GRAFANA_IMAGE "$official"
    profiles+=,grafana
  else
    note "grafana: left out, since $official is not here and was not to be pulled; load an image and name it: GRAFANA_IMAGE=..."
  fi
}

case ${IMAGES:-} in '' | official | debian) ;; *) die "IMAGES is $IMAGES; allowed: official, debian" ;; esac
command -v "${GO:-go}" >/dev/null || die "${GO:-go} is missing: install Go ($(sed -n 's/^go //p' go.mod) or newer), or name it: GO=/usr/local/go/bin/go"
command -v docker >/dev/null || die "docker is missing (Debian: apt-get install docker.io docker-compose)"
docker info >/dev/null 2>&1 || die "the Docker engine does not answer: is it running, and may this user use it?"
rideshare
third rabbitmq RABBITMQ_IMAGE "$official_rabbitmq"
third zookeeper ZOOKEEPER_IMAGE "$official_zookeeper"
profiles=${COMPOSE_PROFILES:-}
if [ "${POSTGRES:-0}" = 1 ]; then
  third postgres POSTGRES_IMAGE "$official_postgres"
  profiles+=,postgres
fi
[ "${OBSERVE:-0}" != 1 ] || observers
[ -z "$profiles" ] || choice+=COMPOSE_PROFILES=${profiles#,}$'\n'
printf %s "$choice" >"$out" # only now: a run that fails leaves OUT as it was.
