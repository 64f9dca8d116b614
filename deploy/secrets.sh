#!/usr/bin/env bash
# Makes the secrets of a stack that are missing: deploy/secrets.sh DIR.
#
# Only this user can enter DIR. The files in it are readable by all, since the container's user, which is another user, reads the
# files that are mounted into the container.
#
#   orchestrator-bus, worker-bus  the broker's URL for each part, with a password of its own
#   rabbitmq-definitions.json     the broker's users with their rights, and the queues
#   launcher-token                the token that the orchestrator presents to the launcher
#   api-credentials               AUTH_FILE of the orchestrator, users and rides
#   postgres-superuser            PostgreSQL's superuser, with POSTGRES=1
#   postgres-log                  the user of persdb's log in PostgreSQL
#   archive-key                   ARCHIVE_KEY_FILE of persdb, empty until you write the keys of a bucket into it
#
# To change the secrets: make down, remove all files of DIR except postgres-* and archive-key, make up. PostgreSQL's passwords stay.
set -euo pipefail
dir=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$dir"
chmod 700 "$dir"

. "$here/secretlib.sh"
# password FILE prints the password of the URL in FILE. If FILE is missing, it is made with a new password.
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
