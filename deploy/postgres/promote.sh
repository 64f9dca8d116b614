#!/usr/bin/env bash
# Promotes a PostgreSQL standby after the primary is lost, for rideshare persdb --log postgres://...
#
#   deploy/postgres/promote.sh [--names NAME,NAME] [--accept-loss] HOST[:PORT]...
#
# Name every standby of the lost primary, by an address at which the other standbys reach it. The script stops replication on
# all of them, promotes the standby that received most, and lets the others follow it. If one of the servers is a primary
# already, or a run was interrupted and the old primary is back, nothing is promoted and the others follow that one. So after a
# failure run the script again, with the same words. Runs at the same time take turns.
#
#   --names NAME,NAME  application_name of each standby that the new primary waits for; the default is those of the other
#                      servers. Necessary if only one server is left.
#   --accept-loss      go on without the servers that do not answer. An acknowledged write may be on them alone, and is lost then.
#                      Each log begins a new epoch. A persdb whose tables have lost writes is refused from then on.
#
# The user needs the rights of a superuser: PGUSER, PGPASSFILE, PGDATABASE (postgres) and the like say who it is. It needs psql.
set -euo pipefail
export LC_ALL=C

usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; }
note() { echo "promote: $*" >&2; }
die() { note "$*"; exit 1; }

limit=60 # seconds that a server gets for each step
export PGDATABASE=${PGDATABASE:-postgres} PGCONNECT_TIMEOUT=${PGCONNECT_TIMEOUT:-3}
# Appended to primary_conninfo: of a repeated keyword the last value counts, so what the operator wrote can stay.
added=" hostaddr='' host="
stopped="${added}/stopped-by-promote"
# The name of this run's sessions with locks, and whether the server has one. PostgreSQL keeps 63 bytes of a name.
run=promote-${HOSTNAME:0:30}-$$-$RANDOM
locked="EXISTS(SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype='advisory' AND granted AND application_name='$run')"

# ask SERVER SQL prints the answer. A paused server accepts connections, so the time is bounded. The SQL may contain a password, so it
# is not passed as an argument, which the process list would show.
ask() { timeout "$((limit + 10))" psql -wXAtq -v ON_ERROR_STOP=1 -h "${1%:*}" -p "${1##*:}" <<<"$2"; }

# try SERVER SQL is ask with a shorter time limit, and sets answer. It returns 1 if the server does not answer. If the server refuses
# the user, the script ends.
try() {
  ! answer=$(PGOPTIONS="-c statement_timeout=$((PGCONNECT_TIMEOUT * 1000 + 2000))" ask "$1" "$2" 2>"$errors") || return 0
  ! grep -qE 'authentication failed|no password supplied|pg_hba\.conf|role .* (does not exist|is not permitted)' "$errors" ||
    die "$(cat "$errors")"$'\n'"Nothing was changed. Set PGUSER, and PGPASSFILE or PGPASSWORD, for all servers, let pg_hba.conf admit them, and run again"
  return 1
}

# await SERVER SQL WHY waits until the answer is t. After the time limit it prints WHY.
await() {
  local until=$((SECONDS + limit))
  until [ "$(ask "$1" "$2" 2>/dev/null)" = t ]; do
    [ $SECONDS -lt $until ] || { note "$1: $3"; return 1; }
    sleep 0.1
  done
}

# word NAME CONNINFO prints the value of the last NAME= in CONNINFO.
word() {
  local info
  info=" $(sed 's/ *= */=/g' <<<"$2")"
  [[ $info =~ .*\ $1=(\'([^\']*)\'|([^\ \']+)) ]] || return 0
  echo "${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
}

# set_to SERVER SETTING VALUE changes a setting, also for later restarts. It returns when new connections have the value; by then all
# processes have been notified.
set_to() {
  local value=${3//\'/\'\'} changed
  changed=$(ask "$1" "SELECT current_setting('$2') <> '$value' AS differs \gset
    \if :differs
      ALTER SYSTEM SET $2 = '$value';
      SELECT pg_reload_conf();
    \else
      \echo same
    \endif")
  [ "$changed" != same ] || return 0
  [ "$changed" = t ]
  await "$1" "SELECT current_setting('$2') = '$value'" "$2 does not change: is it set on the command line?"
}

# enter SERVER waits until no other run works with the server, locks it, and sets answer to the server's state. It returns 1 if the
# server does not answer. The lock ends with this script, or when the server cannot reach this host.
enter() {
  local session until=$((SECONDS + limit))
  exec {session}> >(PGAPPNAME=$run PGOPTIONS='-c tcp_keepalives_idle=3 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3' \
    exec psql -wXAtq -h "${1%:*}" -p "${1##*:}" -c "SELECT pg_advisory_lock(hashtext('promote.sh'))" -f - >/dev/null 2>&1)
  while try "$1" "SELECT $locked, pg_is_in_recovery(), current_setting('cluster_name'), current_setting('primary_conninfo')"; do
    [[ $answer != t* ]] || return 0
    [ $SECONDS -lt $until ] || die "$1: another run of this script works with it. Nothing was changed. Run again"
    sleep 0.05
  done
  cat "$errors" >&2
  return 1
}

# inspect asks every server before anything is changed. Concurrent runs lock the servers in the same order.
inspect() {
  local server answer recovery
  for server in $(printf '%s\n' "${servers[@]}" | sort -u); do
    if ! enter "$server"; then
      silent+=("$server")
      continue
    fi
    IFS='|' read -r _ recovery own[$server] info[$server] <<<"$answer"
    if [ "$recovery" = t ]; then
      standbys+=("$server")
      [[ ${info[$server]} != postgres*://* ]] || die "$server: primary_conninfo is a URI; write it as host=... port=... user=..."
    else
      primaries+=("$server")
    fi
  done
  [ ${#silent[@]} = 0 ] || [ -n "$accept_loss" ] || die "no answer from ${silent[*]}, which may have the newest entries. Nothing was changed." \
    "Start it, or, if it is lost for good, make sure that the old primary is off and give --accept-loss"
  [ ${#silent[@]} = 0 ] || note "going on without ${silent[*]}: acknowledged writes that only they have are lost. They must not run again as they are"
  [ ${#primaries[@]} -le 1 ] || die "${primaries[*]} are all primaries. Nothing was changed. Stop the wrong ones, and make them standbys by pg_rewind or a new base backup"
  [ ${#standbys[@]} -gt 0 ] || [ ${#primaries[@]} -gt 0 ] || die "no server answers"
  [ ${#given[@]} -gt 0 ] || [ $((${#standbys[@]} + ${#primaries[@]})) -gt 1 ] ||
    die "only one server is left. Nothing was changed. Give --names, with the application_name of each standby that will follow it"
}

# no_other_primary ends the script if a primary that the standbys follow answers: it must not go on beside the new one. If an earlier run has
# stopped replication, and all answer and none was promoted, it sets primaries to that server: the standbys follow it again.
no_other_primary() {
  local server followed host answer asked= interrupted=
  for server in "${standbys[@]}"; do
    followed=${info[$server]%"$stopped"}
    [ "$followed" = "${info[$server]}" ] || interrupted=yes
  done
  for server in "${standbys[@]}"; do
    followed=${info[$server]%"$stopped"}
    host=$(word hostaddr "$followed")
    [ -n "$host" ] || host=$(word host "$followed")
    if ! [[ $host =~ ^[A-Za-z0-9._:-]+$ ]]; then
      [ -n "$accept_loss" ] || die "cannot tell which primary $server follows: its primary_conninfo needs one host or hostaddr. Nothing was changed. Correct it, and run again"
      note "cannot tell which primary $server follows. Make sure that it is off"
      continue
    fi
    old=$host:$(word port "$followed")
    [ "${old##*:}" ] || old+=5432
    [[ " ${servers[*]}$asked " != *" $old "* ]] || continue
    asked+=" $old" # only once: if the server is silent, each query takes the whole time limit
    if ! try "$old" 'SELECT pg_is_in_recovery()'; then
      ! grep -q 'could not translate host name' "$errors" || note "the primary $old was not asked, since this host does not know its name. Make sure that it is off"
      continue
    fi
    [ "$answer" = f ] || continue
    [ -n "$interrupted" ] && [ ${#silent[@]} = 0 ] ||
      die "$old answers and is a primary. Nothing was changed. If it is to be replaced, stop it (pg_ctl stop -m fast); if not, name it too, and the others follow it"
    note "an earlier run has stopped replication, and $old answers again. If it is to be replaced, stop it (pg_ctl stop -m fast), and run again"
    primaries=("$old") old=''
    return
  done
}

# stop ends replication on a standby. When it returns, what the standby has received is fixed, and replayed.
stop() {
  local base=${info[$1]%"$stopped"}
  set_to "$1" primary_conninfo "$base$stopped"
  # The replaying process has this wait event only while no receiver runs and after it has found no more WAL on its disk.
  await "$1" "SELECT EXISTS(SELECT FROM pg_stat_activity WHERE backend_type='startup' AND wait_event='RecoveryRetrieveRetryInterval')
    AND NOT EXISTS(SELECT FROM pg_stat_wal_receiver)" 'it does not stop to receive, or has not replayed what it received: is its replay paused or delayed?'
}

# received SERVER prints timeline and position of the WAL on the server's disk, in a form whose text order is their order. Without
# the timeline, a former primary that was started as a standby could win with entries that were never acknowledged.
received() {
  ask "$1" "SELECT (SELECT coalesce(max(left(name, 8)), '00000000') FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}\$')
    || ' ' || lpad((lsn-'0/0')::text, 20, '0') || ' ' || lsn FROM (SELECT CASE WHEN pg_is_in_recovery()
      THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END AS lsn) l"
}

# choose sets primary to the standby that received most. Among equal standbys every run chooses the same one.
choose() {
  local server all=
  for server in "${standbys[@]}"; do
    all+="$(received "$server") $server"$'\n'
  done
  all=$(sort <<<"${all%$'\n'}")
  note "received, with the timeline first:"$'\n'"$all"
  primary=${all##* }
}

# behind ends the script if a standby has received more than the primary: then the wrong server is primary.
behind() {
  local server has most
  for server in "${standbys[@]}"; do
    has=$(received "$server")
    most=$(received "$primary")
    [[ ! $has > $most ]] || die "$server has received more than the primary $primary: ${has##* }. Nothing was changed. Stop $primary, and run again without it"
  done
}

# choose_names sets names to the standbys that the primary waits for. names is never empty: persdb refuses a server without them.
choose_names() {
  local server name
  for server in "${standbys[@]}"; do
    [ -z "$given_names" ] && [ "$server" != "$primary" ] || continue
    name=$(word application_name "${info[$server]}")
    [ -n "$name" ] || name=${own[$server]:-walreceiver}
    given+=("$name")
  done
  for name in "${given[@]}"; do
    [[ $name =~ ^[A-Za-z0-9._-]+$ ]] || die "the name '$name' has other characters than letters, digits and ._-"
    names+="${names:+, }\"$name\""
  done
  names="ANY 1 ($names)"
}

# follow lets a standby follow the primary, and returns when it has on its disk what the primary had: received, or, after
# pg_rewind, replayed from a copy, which does not count as received until the primary writes again.
follow() {
  set_to "$1" primary_conninfo "${info[$1]%%"$added"*}$added${primary%:*} port=${primary##*:}" &&
    await "$1" "SELECT EXISTS(SELECT FROM pg_stat_wal_receiver WHERE status='streaming' AND received_tli=$timeline)
      AND greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) >= '$lsn'::pg_lsn" \
      "it does not follow $primary; its log says why. If the primary lacks old WAL, or the server was a primary, make a new base backup"
}

follow_all() {
  local server at lsn timeline failed=()
  at=$(ask "$primary" "SELECT pg_current_wal_flush_lsn(), ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int")
  lsn=${at%|*} timeline=${at#*|}
  for server in "${standbys[@]}"; do
    [ "$server" != "$primary" ] || continue
    if follow "$server"; then followers+=("$server"); else failed+=("$server"); fi
  done
  [ ${#failed[@]} = 0 ] || die "$primary is the primary, but ${failed[*]} does not follow it; writes wait if no other standby does. Mend it and run again"
}

# new_epoch begins a new epoch in each database with a log if the operator accepts a loss; the lost server need not be named. The log
# then differs from the tables of a persdb that has the lost entries. The new epoch leaves a gap, since the lost server may have issued
# the epochs in it. No standby may follow yet.
new_epoch() {
  local database databases
  [ -n "$accept_loss" ] || return 0
  databases=$(ask "$primary" "SELECT datname FROM pg_database WHERE datallowconn")
  for database in $databases; do
    PGDATABASE=$database ask "$primary" "SET synchronous_commit=local;
      SELECT format('UPDATE %s SET epoch=epoch+1000', oid::regclass) FROM pg_class WHERE relname='log_meta' AND relkind='r' \\gexec"
  done
}

servers=() silent=() standbys=() primaries=() given=() followers=()
declare -A info own
names='' given_names='' accept_loss='' primary='' old=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --accept-loss) accept_loss=yes ;;
    --names) [ $# -ge 2 ] || die '--names needs names'; given_names=$2; IFS=, read -ra given <<<"$2"; shift ;;
    *)
      [[ $1 =~ ^[A-Za-z0-9._-]+(:[0-9]+)?$ && $1 != -* ]] || { usage >&2; die "'$1' is not HOST or HOST:PORT"; }
      case $1 in *:*) servers+=("$1") ;; *) servers+=("$1:5432") ;; esac ;;
  esac
  shift
done
[ ${#servers[@]} -gt 0 ] || { usage >&2; exit 2; }
found=$(command -v psql) || die 'psql is missing (Debian: apt-get install postgresql-client)'
# Debian's psql is a Perl script that looks for the program. Calling the program directly halves the time of each query.
[ "$found" != /usr/bin/psql ] || for folder in /usr/lib/postgresql/*/bin; do [ ! -x "$folder/psql" ] || PATH=$folder:$PATH; done

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
inspect
[ ${#primaries[@]} = 1 ] || no_other_primary
if [ ${#primaries[@]} = 1 ]; then
  primary=${primaries[0]}
  note "$primary is a primary already"
  behind
  choose_names
  new_epoch
  follow_all
  # Only after follow_all: a former primary that became a standby without pg_rewind must not confirm writes.
  set_to "$primary" synchronous_standby_names "$names"
else
  for server in "${standbys[@]}"; do stop "$server"; done
  choose
  choose_names
  # This is set before the promotion, so that no write is ever acknowledged that is on one machine only.
  set_to "$primary" synchronous_standby_names "$names"
  note "promoting $primary"
  [ "$(ask "$primary" "SELECT pg_promote(true, $limit) WHERE $locked")" = t ] || die "$primary was not promoted within $limit s; see its log, and run again"
  new_epoch
  follow_all
fi
# Before a checkpoint, pg_rewind does not see that the server was promoted, and leaves an old primary as it is.
ask "$primary" CHECKPOINT || note "run CHECKPOINT on $primary before pg_rewind"
note "$primary is the primary, waits for $names, and is followed by ${followers[*]:-no standby: persdb refuses writes until one of these follows it}"
[ -z "$old" ] || note "the old primary $old must not run again as it is: make it a standby of $primary, by pg_rewind or a new base backup"
