#!/bin/sh
# One of the two servers of the stack's PostgreSQL: start.sh NAME OTHER FIRST. NAME and OTHER are their host names, FIRST is the one
# that makes the database. An empty volume is filled by a copy of OTHER if that is a primary. What is being made has another
# name until it is whole, so a start may be killed at any time.
set -eu
name=$1 other=$2 first=$3
root=/var/lib/postgresql/data data=$root/main new=$root/new
export PGPASSFILE=$root/pgpass PGCONNECT_TIMEOUT=3
(umask 077 && echo "*:*:*:postgres:$(cat /run/secrets/postgres-superuser)" >"$PGPASSFILE")

# other_is prints what OTHER is: primary, standby, absent, or unknown while it does not answer.
other_is() {
  said=$(psql -XAt -h "$other" -U postgres -d postgres -c 'SELECT pg_is_in_recovery()' 2>&1) || true
  case $said in
    f) echo primary ;;
    t) echo standby ;;
    *refused* | *"could not translate"* | *"No route"*) echo absent ;;
    *) echo unknown ;;
  esac
}

make_database() {
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
synchronous_standby_names = 'ANY 1 ("$other")'
END
  cat >>"$new/pg_hba.conf" <<END
host all all all scram-sha-256
host replication postgres all scram-sha-256
END
}

until [ -d "$data" ]; do
  rm -rf "$new"
  is=$(other_is)
  if [ "$is" = primary ]; then
    pg_basebackup -d "host=$other user=postgres passfile=$PGPASSFILE application_name=$name" -D "$new" -X stream -c fast -R || { sleep 1; continue; }
  elif [ "$is" = absent ] && [ "$name" = "$first" ]; then
    make_database
  else
    sleep 1
    continue
  fi
  mv "$new" "$data"
done
exec postgres -D "$data"
