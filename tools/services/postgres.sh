# PostgreSQL: a primary (postgres), and a synchronous standby (pgstandby). A second
# standby (pgstandby2) is started if it is named. Sourced by services.sh.
#
# The server refuses to run as root, and its user cannot reach a checkout in root's
# home: the data are in a directory of its own, whose name is in postgres/home.

# postgres_bin prints the directory of the newest version's programs; it differs between Debian's releases.
postgres_bin() { compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1; }

postgres_installed() { [ -x "$(postgres_bin)/initdb" ]; }
pgstandby_installed() { postgres_installed; }
pgstandby2_installed() { postgres_installed; }

# postgres_possible succeeds if PostgreSQL is installed or can be installed.
postgres_possible() {
  postgres_installed || { [ "${SERVICES_INSTALL:-yes}" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
}

# postgres_as prints the command that runs another command as the server's user.
postgres_as() {
  echo env -C /
  if [ "$(id -u)" = 0 ]; then echo setpriv --reuid=postgres --regid=postgres --clear-groups --; fi
}

postgres_home() { cat "$dir/postgres/home" 2>/dev/null; }

# postgres_make_home makes the directory for the password and the data of all servers.
postgres_make_home() {
  local home
  mkdir -p "$dir/postgres"
  home=$(mktemp -d /var/tmp/rideshare-postgres.XXXXXX)
  (umask 077 && od -An -N12 -tx1 /dev/urandom | tr -d ' \n' >"$home/password")
  (umask 077 && echo "*:*:*:rideshare:$(cat "$home/password")" >"$home/pgpass")
  if [ "$(id -u)" = 0 ]; then chown -R postgres:postgres "$home"; fi
  echo "$home" >"$dir/postgres/home"
}

# postgres_remove removes the data of all servers.
postgres_remove() {
  local home
  home=$(postgres_home) || return 0
  case $home in /var/tmp/rideshare-postgres.*) rm -rf "$home" ;; esac
  rm -f "$dir/postgres/home"
}

# postgres_forget_pid FOLDER removes the pid file of a killed server. While the killed process is not reaped, the server would take it for alive.
postgres_forget_pid() { rm -f "$(postgres_home)/$1/postmaster.pid"; }

# postgres_ask SQL runs SQL on the primary and prints the answer.
postgres_ask() {
  PGPASSFILE=$(postgres_home)/pgpass PGCONNECT_TIMEOUT=2 "$(postgres_bin)/psql" -XAtq -h 127.0.0.1 -p "$(port_of postgres client)" \
    -U rideshare -d postgres -c "$1" 2>/dev/null
}

postgres_answers() { "$(postgres_bin)/pg_isready" -q -t 2 -h 127.0.0.1 -p "$(port_of postgres client)"; }

# standby_answers NAME succeeds if the standby is connected as a synchronous standby of the primary.
standby_answers() { [ "$(postgres_ask "SELECT 1 FROM pg_stat_replication WHERE sync_state='quorum' AND application_name='$1'")" = 1 ]; }
pgstandby_answers() { standby_answers pgstandby; }
pgstandby2_answers() { standby_answers pgstandby2; }

postgres_url() { echo "postgres://rideshare@127.0.0.1:$(port_of postgres client),127.0.0.1:$(port_of pgstandby client)/postgres"; }
pgstandby_url() { echo "127.0.0.1:$(port_of pgstandby client)"; }
pgstandby2_url() { echo "127.0.0.1:$(port_of pgstandby2 client)"; }

postgres_env() {
  echo "POSTGRES_URL=$(postgres_url)"
  echo "POSTGRES_PASSWORD_FILE=$(postgres_home)/password"
  echo "POSTGRES_PID=$(in_mode postgres pid)"
}

pgstandby_env() {
  echo "PGSTANDBY_URL=$(pgstandby_url)"
  echo "PGSTANDBY_PID=$(in_mode pgstandby pid)"
}

pgstandby2_env() { echo "PGSTANDBY2_URL=$(pgstandby2_url)"; }

postgres_start_process() {
  local as bin home
  read -ra as <<<"$(postgres_as | tr '\n' ' ')"
  bin=$(postgres_bin)
  choose_port postgres client
  if [ ! -d "$(postgres_home)" ]; then postgres_make_home; fi
  home=$(postgres_home)
  if [ ! -s "$home/primary/PG_VERSION" ]; then
    "${as[@]}" "$bin/initdb" -D "$home/primary" -U rideshare --auth=scram-sha-256 --pwfile="$home/password" \
      -E UTF8 --locale=C -N >>"$dir/postgres/postgres.out" 2>&1 || die "initdb failed; see $dir/postgres/postgres.out"
    cat >>"$home/primary/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 32MB
wal_keep_size = 256MB
synchronous_standby_names = 'ANY 1 (pgstandby, pgstandby2)'
END
  fi
  postgres_forget_pid primary
  launch "$dir/postgres/postgres" "${as[@]}" "$bin/postgres" -D "$home/primary" -p "$(port_of postgres client)"
  ln -sf postgres.out "$dir/postgres/out"
}

pgstandby_start_process() { standby_start pgstandby; }
pgstandby2_start_process() { standby_start pgstandby2; }

# standby_start NAME starts a standby. ALTER SYSTEM can make it follow another primary later.
standby_start() {
  local as bin home primary
  read -ra as <<<"$(postgres_as | tr '\n' ' ')"
  bin=$(postgres_bin)
  home=$(postgres_home)
  choose_port "$1" client
  primary="host=127.0.0.1 port=$(port_of postgres client) user=rideshare passfile=$home/pgpass application_name=$1"
  if [ ! -s "$home/$1/PG_VERSION" ]; then
    rm -rf "${home:?}/$1"
    "${as[@]}" "$bin/pg_basebackup" -d "$primary" -D "$home/$1" -X stream -c fast -N \
      >>"$dir/$1/$1.out" 2>&1 || die "pg_basebackup failed; see $dir/$1/$1.out"
    "${as[@]}" touch "$home/$1/standby.signal"
  fi
  echo "primary_conninfo = '$primary'" >>"$home/$1/postgresql.conf" # the last line counts
  postgres_forget_pid "$1"
  launch "$dir/$1/$1" "${as[@]}" "$bin/postgres" -D "$home/$1" -p "$(port_of "$1" client)"
  ln -sf "$1.out" "$dir/$1/out"
}
