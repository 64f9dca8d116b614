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
# To change them: make down, remove all files of DIR but postgres-* and archive-key, make up. PostgreSQL keeps its passwords.
set -euo pipefail
dir=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$dir"
chmod 700 "$dir"

. "$here/secretlib.sh"
# password FILE: the one in the URL that is in FILE, which is made if it is missing.
password() {
  [ -s "$dir/$1" ] || echo "amqp://${1%-bus}:$(random 24)@rabbitmq:5672/" | save "$dir/$1"
  sed 's|.*:\(.*\)@.*|\1|' "$dir/$1"
}
orchestrator=$(password orchestrator-bus)
worker=$(password worker-bus)
sed -e "s|@ORCHESTRATOR@|$(hash "$orchestrator")|" -e "s|@WORKER@|$(hash "$worker")|" "$here/rabbitmq/definitions.json" | save "$dir/rabbitmq-definitions.json"
[ -s "$dir/launcher-token" ] || random 32 | save "$dir/launcher-token"
[ -s "$dir/api-credentials" ] || echo "bearer $(random 32)" | save "$dir/api-credentials"
for name in postgres-superuser postgres-log; do
  [ -s "$dir/$name" ] || random 32 | save "$dir/$name"
done
[ -e "$dir/archive-key" ] || save "$dir/archive-key" </dev/null
