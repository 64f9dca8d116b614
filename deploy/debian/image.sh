#!/usr/bin/env bash
# Makes a stand-in for an official image: image.sh rabbitmq|zookeeper|prometheus|postgres IMAGE RECIPE.
# User, paths, variables and command are those of the official one as far as docker-compose.yml uses them.
set -euo pipefail
umask 022 # users of the container read the files
cd "$(dirname "${BASH_SOURCE[0]}")"
name=$1 image=$2 recipe=$3
tar=$(mktemp)
trap 'rm -f "$tar"' EXIT

case $name in
  rabbitmq)
    changes=(
      'USER 999:999' 'ENV HOME=/var/lib/rabbitmq LANG=C.UTF-8 PATH=/opt/rabbitmq/sbin:/usr/bin:/usr/sbin RABBITMQ_LOGS=-'
      'VOLUME /var/lib/rabbitmq' 'EXPOSE 5672' 'CMD ["rabbitmq-server"]'
    ) ;;
  zookeeper)
    changes=('USER 1000:1000' 'ENV PATH=/usr/bin:/usr/sbin' 'WORKDIR /data' 'VOLUME /data' 'EXPOSE 2181' 'CMD ["zookeeper-server"]') ;;
  prometheus)
    changes=('USER 65534:65534' 'WORKDIR /prometheus' 'VOLUME /prometheus' 'EXPOSE 9090' 'ENTRYPOINT ["/bin/prometheus"]') ;;
  postgres)
    changes=(
      'USER 999:999' 'ENV PATH=/usr/lib/postgresql/15/bin:/usr/bin:/usr/sbin' 'WORKDIR /var/lib/postgresql' 'VOLUME /var/lib/postgresql/data'
      'EXPOSE 5432' 'CMD ["postgres"]'
    ) ;;
esac
mapfile -t packages < <(tr ' ' '\n' <"$name.packages" | sed '/^$/d')
./unpack.sh "$tar" "$PWD/$name.sh" "${packages[@]}"
options=()
for change in "${changes[@]}" "LABEL rideshare.recipe=$recipe"; do options+=(--change "$change"); done
docker import "${options[@]}" "$tar" "$image" >/dev/null
