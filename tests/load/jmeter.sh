#!/usr/bin/env bash
# Plays the four scenes of rideshare.jmx on a system, headless, and checks the result.
#
#   tests/load/jmeter.sh [-Jname=value ...]
#
# GATEWAY_URL and ORCHESTRATOR_URL name a running system, and PERIOD its SCALE_PERIOD in seconds
# (120). Without them a system is started for the run, on free ports, with a period of 5 s (PERIOD);
# UP_FLAGS gives it further flags. JMETER names the program to use; if none is found, Debian's
# package is installed (as root). JMeter's output is kept in OUT, by default .jmeter of this checkout.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
here=$root/tests/load
out=${OUT:-$root/.jmeter}
up_pid=

note() { echo "jmeter: $*" >&2; }
die() { note "$*"; exit 1; }

# installed PROGRAM PACKAGE... installs the packages if the program is missing.
installed() {
  local program=$1
  shift
  command -v "$program" >/dev/null && return
  command -v apt-get >/dev/null || die "$program is missing; install it, or name JMeter with JMETER=/path/to/bin/jmeter"
  [ "$(id -u)" = 0 ] || die "$program is missing: apt-get install --no-install-recommends $*"
  note "installing $*"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# Debian's JMeter 2.13 cannot read any plan as it is: Debian's XStream refuses the classes of
# JMeter. A permission class put before XStream's own allows them again.
debian_java_args() {
  local java=/usr/share/java shim=$out/shim
  if [ ! -s "$shim.jar" ]; then
    mkdir -p "$shim"
    javac -nowarn -cp "$java/xstream.jar" -d "$shim" "$here"/shim/com/thoughtworks/xstream/security/*.java
    jar cf "$shim.jar" -C "$shim" .
  fi
  echo "-Xbootclasspath/a:$shim.jar:$java/xstream.jar:$java/xpp3.jar:$java/xmlpull.jar"
}

find_jmeter() {
  if [ -z "${JMETER:-}" ]; then
    installed jmeter jmeter jmeter-http default-jdk-headless
    JMETER=$(command -v jmeter)
  fi
  if [ "$JMETER" = /usr/bin/jmeter ] && [ -e /usr/share/jmeter/bin/ApacheJMeter.jar ]; then
    installed javac default-jdk-headless
    JAVA_ARGS="${JAVA_ARGS:-} $(debian_java_args)"
    export JAVA_ARGS
  fi
}

# start_system runs the system of this checkout until the end of this script.
start_system() {
  local ready=$out/ready.json tries=0
  rm -rf "$out/data" "$ready"
  (cd "$root" && CGO_ENABLED=0 go build -o "$out/rideshare" ./cmd/rideshare)
  # shellcheck disable=SC2086 # UP_FLAGS is several words.
  SCALE_PERIOD=${PERIOD}s "$out/rideshare" up --data "$out/data" --ready-file "$ready" \
    --gateway 127.0.0.1:0 --users 127.0.0.1:0 --rides 127.0.0.1:0 --orchestrator 127.0.0.1:0 ${UP_FLAGS:-} >"$out/up.log" 2>&1 &
  up_pid=$!
  until [ -s "$ready" ]; do
    tries=$((tries + 1))
    kill -0 "$up_pid" 2>/dev/null || die "the system ended: $(tail -n 3 "$out/up.log")"
    [ "$tries" -lt 300 ] || die "the system is not ready after a minute, see $out/up.log"
    sleep 0.2
  done
  GATEWAY_URL=$(sed -E 's/.*"gateway":"([^"]*)".*/\1/' "$ready")
  ORCHESTRATOR_URL=$(sed -E 's/.*"orchestrator":"([^"]*)".*/\1/' "$ready")
}

stop_system() {
  [ -n "$up_pid" ] || return 0
  kill "$up_pid" 2>/dev/null || true
  wait "$up_pid" || note "the system did not end well, see $out/up.log"
}

# host URL and port URL print the parts of http://host:port.
host() { local address=${1#http://}; echo "${address%%[:/]*}"; }
port() { local address=${1#http://}; address=${address%%/*}; case $address in *:*) echo "${address##*:}" ;; *) echo 80 ;; esac; }

mkdir -p "$out"
find_jmeter
trap stop_system EXIT
if [ -n "${GATEWAY_URL:-}" ] && [ -n "${ORCHESTRATOR_URL:-}" ]; then
  PERIOD=${PERIOD:-120}
else
  PERIOD=${PERIOD:-5}
  start_system
fi
# The quiet scene sends at most 8 reads in a period, less than one slave serves.
quiet=$((PERIOD * 1000 / 8))
rm -f "$out/out.jtl"
"$JMETER" -n -t "$here/rideshare.jmx" -l "$out/out.jtl" -j "$out/jmeter.log" \
  -Jgateway_host="$(host "$GATEWAY_URL")" -Jgateway_port="$(port "$GATEWAY_URL")" \
  -Jorchestrator_host="$(host "$ORCHESTRATOR_URL")" -Jorchestrator_port="$(port "$ORCHESTRATOR_URL")" \
  -Jperiod="$PERIOD" -Jquiet_think="$quiet" \
  -Jjmeter.save.saveservice.output_format=csv -Jjmeter.save.saveservice.print_field_names=true "$@"
(cd "$root" && go run ./tests/load/jtl -jtl "$out/out.jtl" -orchestrator "$ORCHESTRATOR_URL" -settle "$((2 * PERIOD + 20))s")
