# What the services need on this machine. Sourced by services.sh.

rabbitmq_packages="rabbitmq-server"
zookeeper_packages="libzookeeper-java libslf4j-java default-jre-headless"
postgres_packages="postgresql" # which depends on the package of the distribution's version
pgstandby_packages=$postgres_packages
pgstandby2_packages=$postgres_packages

rabbitmq_installed() { [ -n "$(rabbitmq_sbin)" ] && command -v epmd >/dev/null; }
zookeeper_installed() { [ -e /usr/share/java/zookeeper.jar ] && [ -e /usr/share/java/slf4j-simple.jar ] && command -v java >/dev/null; }

# provide SERVICE prints process or container, whichever this machine can run, and installs
# or pulls what is missing.
provide() {
  local service=$1
  if [ "${SERVICES_MODE:-}" != container ] || [ -z "$(container_image "$service")" ]; then
    if "${service}_installed"; then echo process; return; fi
    if [ "${SERVICES_INSTALL:-yes}" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      install_packages "$service" >&2
      "${service}_installed" || die "$service is still missing after the installation"
      echo process
      return
    fi
  fi
  if container_possible "$service"; then echo container; return; fi
  local packages=${service}_packages
  die "$service is missing. As root on Debian: apt-get install ${!packages}. Or let docker pull $(container_image "$service")."
}

# install_packages SERVICE installs the packages without letting them start services.
install_packages() (
  local packages=${1}_packages policy=/usr/sbin/policy-rc.d
  note "installing ${!packages}"
  exec 8>/run/lock/rideshare-services.lock
  flock -w 300 8 || die "another installation runs"
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  local options=(-qq -o DPkg::Lock::Timeout=120)
  # shellcheck disable=SC2086 # a list of packages
  apt-get "${options[@]}" install -y --no-install-recommends ${!packages} && return
  apt-get "${options[@]}" update
  # shellcheck disable=SC2086
  apt-get "${options[@]}" install -y --no-install-recommends ${!packages}
)
