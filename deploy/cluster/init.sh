#!/usr/bin/env bash
# Makes the settings, secrets and certificates of a cluster of three hosts, once:
#
#   deploy/cluster/init.sh DIR NAME=ADDRESS NAME=ADDRESS NAME=ADDRESS
#
#   deploy/cluster/init.sh .cluster a=10.0.0.1 b=10.0.0.2 c=10.0.0.3
#
# ADDRESS is how the other hosts reach the host: an IP address, or a name with a dot that all hosts resolve. It makes
#
#   DIR/NAME       what a host gets: settings, secrets, certificate. Copy it there, with its rights. The first host makes the database
#   DIR/ca.pem     the CA of the certificates, for clients
#   DIR/ca-key     the CA's key, which makes certificates of further hosts. Keep it off the hosts
#
# It never changes a DIR that exists.
set -euo pipefail
umask 022 # containers have users of their own; nobody else enters DIR.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../secretlib.sh"

die() { echo "init: $*" >&2; exit 1; }

[ $# = 4 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=${1%/} # DIR.new is beside it
shift
names=() addresses=()
for host; do
  [[ $host =~ ^([a-z][a-z0-9-]{0,31})=([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)$ ]] || die "'$host' is not NAME=ADDRESS: 1 to 32 small letters, digits and - for the name, an IP address or a name with a dot for the address"
  [[ " ${names[*]} " != *" ${BASH_REMATCH[1]} "* && " ${addresses[*]} " != *" ${BASH_REMATCH[2]} "* ]] || die "$host: each host has its own name and address"
  names+=("${BASH_REMATCH[1]}") addresses+=("${BASH_REMATCH[2]}")
done
[ ! -e "$dir" ] || die "$dir exists. Another secret or certificate would lock the hosts out that run with the old ones"
command -v openssl >/dev/null || die 'openssl is missing (Debian: apt-get install openssl)'

# What is half made has another name.
whole=$dir dir=$dir.new
rm -rf "$dir"
(umask 077 && mkdir -p "$dir")

days=3650 # docs/CLUSTER.md says how to renew them
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days $days -subj '/CN=rideshare cluster' \
  -keyout "$dir/ca-key" -out "$dir/ca.pem" 2>/dev/null
operator=$(random 24) orchestrator=$(random 24) worker=$(random 24)

# joined FIRST BEFORE AFTER: all addresses, that of host FIRST first, each between BEFORE and AFTER, with commas in between.
joined() {
  local all="$2${addresses[$1]}$3" i
  for i in "${!addresses[@]}"; do
    [ "$i" = "$1" ] || all+=",$2${addresses[$i]}$3"
  done
  echo "$all"
}

# certificate NAME ADDRESS
certificate() {
  local to=$dir/$1/tls kind=DNS
  [[ ! $2 =~ ^[0-9.]+$ ]] || kind=IP
  mkdir "$to"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$to/key.pem" -out "$to/request" 2>/dev/null
  openssl x509 -req -in "$to/request" -CA "$dir/ca.pem" -CAkey "$dir/ca-key" -CAcreateserial -days $days -out "$to/cert.pem" \
    -extfile <(echo "subjectAltName=$kind:$2,DNS:localhost,IP:127.0.0.1") 2>/dev/null
  rm "$to/request"
  cp "$dir/ca.pem" "$to"
  chmod 444 "$to"/*
}

launchers= zoo=
for i in "${!names[@]}"; do
  launchers+=${launchers:+,}${names[$i]}=https://${addresses[$i]}:9600
  zoo+="server.$((i + 1))=${addresses[$i]}:2888:3888"$'\n'
done
for i in "${!names[@]}"; do
  name=${names[$i]} address=${addresses[$i]} host=$dir/${names[$i]} others=
  mkdir -p "$host/secrets" "$host/first"
  chmod 700 "$host"
  [ "$i" != 0 ] || : >"$host/first/database" # this host makes the database
  certificate "$name" "$address"
  for j in "${!names[@]}"; do
    [ "$j" = "$i" ] || others+="${others:+ }${names[$j]}=${addresses[$j]}"
  done
  cat >"$host/settings" <<END
# The settings of host $name, made by deploy/cluster/init.sh. In each list the host itself comes first.
HOST_NAME=$name
HOST_ADDRESS=$address
HOST_NUMBER=$((i + 1))
OTHER_HOSTS=$others
LAUNCHERS=$launchers
COORDINATOR=zk://$(joined "$i" '' :2181)/rideshare
COMMIT_LOG=postgres://rideshare@$(joined "$i" '' :5432)/rideshare
PERSDB_URLS=$(joined "$i" https:// :9530)
ORCHESTRATOR_URLS=$(joined "$i" https:// :8083)
GATEWAY_URLS=$(joined "$i" https:// :8080)
USERS_URLS=$(joined "$i" https:// :9510)
RIDES_URLS=$(joined "$i" https:// :9520)
END
  {
    cat "$here/../zookeeper/zoo.cfg"
    printf 'initLimit=10\nsyncLimit=4\n%s' "$zoo"
  } >"$host/zoo.cfg"
  {
    cat "$here/rabbitmq.conf"
    for j in "${!addresses[@]}"; do echo "cluster_formation.classic_config.nodes.$((j + 1)) = rabbit@${addresses[$j]}"; done
  } >"$host/rabbitmq.conf"
  for user in operator orchestrator worker; do
    echo "amqp://$user:${!user}@$(joined "$i" '' :5672)/" | save "$host/secrets/$user-bus"
  done
  chmod 644 "$host"/zoo.cfg "$host"/rabbitmq.conf
done
# The users of the stack with their rights, without its queues, and a user that may declare queues.
operator_user='{"name": "operator", "password_hash": "'$(hash "$operator")'", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []},'
operator_rights='{"user": "operator", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},'
sed -e '/^  "exchanges"/,$d' -e "s|@ORCHESTRATOR@|$(hash "$orchestrator")|" -e "s|@WORKER@|$(hash "$worker")|" \
  -e "s|\"users\": \[|&$operator_user|" -e "s|\"permissions\": \[|&$operator_rights|" "$here/../rabbitmq/definitions.json" |
  sed '$s/,$/}/' | save "$dir/rabbitmq-definitions.json"
echo "bearer $(random 32)" | save "$dir/api-credentials"
for secret in launcher-token postgres-superuser postgres-log erlang-cookie; do
  random 32 | save "$dir/$secret"
done
for name in "${names[@]}"; do # the same on every host
  cp -p "$dir"/{rabbitmq-definitions.json,api-credentials,launcher-token,postgres-superuser,postgres-log,erlang-cookie} "$dir/$name/secrets"
done
rm -f "$dir"/{rabbitmq-definitions.json,launcher-token,postgres-superuser,postgres-log,erlang-cookie,ca.srl}
mv "$dir" "$whole"
echo "init: made $whole: copy $(printf "$whole/%s " "${names[@]}")to the hosts, with their rights; $whole/api-credentials is what clients need" >&2
