#!/usr/bin/env bash
# Makes the secrets of a stack that are missing: deploy/secrets.sh DIR.
#
# Nobody but this user can enter DIR. The files in it are readable by all, since a container's user, which is
# another one, reads those that are mounted into it.
#
#   orchestrator-bus, worker-bus  the broker's URL for each part, with a password of its own
#   rabbitmq-definitions.json     the broker's users with their rights, and the queues
#   launcher-token                what the orchestrator shows to the launcher
#   api-credentials               AUTH_FILE of the orchestrator, users and rides
#   postgres-superuser            PostgreSQL's superuser, with POSTGRES=1
#   postgres-log                  the user of persdb's log in PostgreSQL
#   archive-key                   ARCHIVE_KEY_FILE of persdb, empty until somebody writes the keys of a bucket into it
#
# To change them all: remove DIR, then make up.
set -euo pipefail
dir=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$dir"
chmod 700 "$dir"

random() { od -An -v -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
unhex() { printf "$(sed 's/../\\x&/g' <<<"$1")"; } # hexadecimal digits to bytes
# save FILE: standard input, whole or not at all.
save() { cat >"$dir/$1.new" && chmod 444 "$dir/$1.new" && mv -f "$dir/$1.new" "$dir/$1"; }
# password FILE: the one in the URL that is in FILE, which is made if it is missing.
password() {
  [ -s "$dir/$1" ] || echo "amqp://${1%-bus}:$(random 24)@rabbitmq:5672/" | save "$1"
  sed 's|.*:\(.*\)@.*|\1|' "$dir/$1"
}
# hash PASSWORD as RabbitMQ keeps it: a salt, then the SHA-256 of salt and password.
hash() {
  local salt digest
  salt=$(random 4)
  digest=$({ unhex "$salt"; printf %s "$1"; } | sha256sum | cut -d' ' -f1)
  unhex "$salt$digest" | base64 -w0
}

orchestrator=$(password orchestrator-bus)
worker=$(password worker-bus)
sed -e "s|@ORCHESTRATOR@|$(hash "$orchestrator")|" -e "s|@WORKER@|$(hash "$worker")|" "$here/rabbitmq/definitions.json" | save rabbitmq-definitions.json
[ -s "$dir/launcher-token" ] || random 32 | save launcher-token
[ -s "$dir/api-credentials" ] || echo "bearer $(random 32)" | save api-credentials
for name in postgres-superuser postgres-log; do
  [ -s "$dir/$name" ] || random 32 | save "$name"
done
[ -e "$dir/archive-key" ] || save archive-key </dev/null
