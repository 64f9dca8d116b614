#!/bin/sh
# One server of PostgreSQL for the log: start.sh NAME FIRST OTHER[=ADDRESS]...
#
# NAME and each OTHER are names of servers, which are also their addresses unless one is given. FIRST is the name of the server
# that makes the database, or a file: the server on which the file exists makes the database. A server with an empty volume otherwise
# copies the primary. Data that is being made has another name until it is complete, so a start may be killed at any time.
#
# A lost primary that promote.sh has replaced becomes a copy of the new primary. Writes that only the old primary has were never
# confirmed, since it had no standby any more. A standby becomes a copy, too, if it was away for so long that the primary has removed
# WAL that the standby lacks.
set -eu
name=$1 first=$2
shift 2
root=/var/lib/postgresql/data data=$root/main new=$root/new old=$root/old
export PGPASSFILE=$root/pgpass PGCONNECT_TIMEOUT=3
(umask 077 && echo "*:*:*:postgres:$(cat /run/secrets/postgres-superuser)" >"$PGPASSFILE")

ask() { timeout 6 psql -XAt -h "$1" -U postgres -d postgres -c "$2" 2>&1 || true; } # ask ADDRESS SQL: the answer, or why there is none

# is SERVER prints what it is: primary with its timeline, standby, absent, or unknown while it does not answer.
is() {
  said=$(ask "${1#*=}" "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby 0'
    ELSE 'primary ' || ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int END")
  case $said in
    primary* | standby*) echo "$said" ;;
    *refused* | *"could not translate"* | *"No route"*) echo "absent 0" ;;
    *) echo "unknown 0" ;;
  esac
}

# look SERVER...: sets primary and timeline to the primary with the highest timeline, and absent if no server is there.
look() {
  primary='' timeline=0 absent=yes
  for server; do
    found=$(is "$server")
    [ "$found" = 'absent 0' ] || absent=
    case $found in primary*) [ "${found#* }" -le "$timeline" ] || { primary=${server#*=} timeline=${found#* }; } ;; esac
  done
}

# copy copies the primary's data to $new. Its connection has no application_name: with one, commits would count the copy as a
# standby, although its data may not be on disk yet. The server that is started later has the name, as cluster_name.
copy() {
  rm -rf "$new"
  pg_basebackup -d "host=$primary user=postgres passfile=$PGPASSFILE" -D "$new" -X stream -c fast -R
}

make_database() {
  for server; do names="${names:+$names, }\"${server%%=*}\""; done
  rm -rf "$new"
  initdb -D "$new" -U postgres --auth=scram-sha-256 --pwfile=/run/secrets/postgres-superuser -E UTF8 --locale=C --data-checksums
  postgres --single -D "$new" -c unix_socket_directories= postgres >/dev/null <<END
CREATE ROLE rideshare LOGIN PASSWORD '$(cat /run/secrets/postgres-log)'
GRANT pg_read_all_stats TO rideshare
CREATE DATABASE rideshare OWNER rideshare
END
  cat >>"$new/postgresql.conf" <<END
listen_addresses = '*'
unix_socket_directories = ''
shared_buffers = 64MB
jit = off
wal_keep_size = 512MB
synchronous_standby_names = 'ANY 1 ($names)'
END
  cat >>"$new/pg_hba.conf" <<END
host all all all scram-sha-256
host replication postgres all scram-sha-256
END
}

# may succeeds if this server may make the database.
may() { [ "$name" = "$first" ] || [ -e "$first" ]; }

# waits_for SERVER... prints why there are no data yet, at every 60th call, which is at most once a minute.
waited=0
waits_for() {
  why='another server is there, or its host does not answer, and may have the database'
  may || why="this server may not make the database: it is not $first, and no file $first exists"
  [ $((waited % 60)) != 0 ] || echo "start.sh: waiting, since no primary answers at $*, and $why" >&2
  waited=$((waited + 1))
}

# own prints the newest timeline of the WAL here; pg_controldata may show an older one until the checkpoint after a promotion. Without
# WAL own prints a timeline higher than any other: PostgreSQL then reports what is wrong, and no copy replaces the data.
own() {
  newest=$(ls "$data/pg_wal" | sed -n 's/^\([0-9A-F]\{8\}\)[0-9A-F]\{16\}$/\1/p' | sort | tail -n 1)
  printf %d "0x${newest:-7FFFFFFF}"
}

# replaced SERVER... succeeds if a copy of the primary must replace this server's data: they are a primary's and another server was
# promoted since, or they are those of a standby that was behind, and the primary's timeline is not older.
replaced() {
  newer=1
  if [ -e "$data/standby.signal" ]; then
    [ -s "$data/standby.signal" ] || return 1
    newer=0
  fi
  look "$@"
  [ -n "$primary" ] && [ $((timeline - $(own))) -ge $newer ]
}

# stuck LSN succeeds if this standby's WAL ends before LSN, no more WAL is on its disk, and it receives none.
stuck() {
  [ "$(ask 127.0.0.1 "SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) < '$1' FROM pg_stat_activity
    WHERE backend_type = 'startup' AND wait_event = 'RecoveryRetrieveRetryInterval' AND NOT EXISTS(SELECT FROM pg_stat_wal_receiver)")" = t ]
}

# behind SERVER... succeeds if this server is a standby and lacks WAL that the primary has removed. It notes this in standby.signal:
# PostgreSQL does not read the content of that file, and the file disappears with the data or with a promotion.
behind() {
  [ -e "$data/standby.signal" ] && stuck FFFFFFFF/FFFFFFFF || return 1
  look "$@"
  [ -n "$primary" ] && [ "$timeline" -ge "$(own)" ] || return 1
  stuck "$(ask "$primary" "SELECT min(substr(name, 9, 8) || '/' || substr(name, 23) || '000000') FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}\$'")" &&
    truncate -c -s 1 "$data/standby.signal"
}

# A start that was killed while it replaced the data has left the old data, complete until the new data are in place.
[ -d "$data" ] || [ ! -d "$old" ] || mv "$old" "$data"
rm -rf "$old"
until [ -d "$data" ]; do
  look "$@"
  if [ -n "$primary" ]; then
    copy || { sleep 1; continue; }
  elif [ -n "$absent" ] && may; then
    make_database "$@"
  else
    waits_for "$@"
    sleep 1
    continue
  fi
  mv "$new" "$data"
done
while replaced "$@"; do
  echo "start.sh: the data of this server cannot follow the primary $primary; copying it"
  copy || { sleep 1; continue; }
  mv "$data" "$old"
  mv "$new" "$data"
  rm -rf "$old"
done
truncate -c -s 0 "$data/standby.signal" # whether this standby is behind is checked again
# A primary that was paused or cut off may find itself replaced while it runs. The engine starts this script again.
# The second shell is not a child of the server, which wants to know its children.
(
  while sleep 5; do
    ! { replaced "$@" || behind "$@"; } || pg_ctl stop -D "$data" -m immediate >/dev/null
  done &
)
exec postgres -D "$data" -c cluster_name="$name"
