# Processes with pid files, and ports in files. Sourced by services.sh.
#
# A pid file has pid, start time and boot id: the pid alone may belong to another
# process after the process has ended or the machine was restarted.

boot_id() { cat /proc/sys/kernel/random/boot_id; }

# start_time PID prints the start time in clock ticks since boot. It fails if the process has ended or is a zombie.
start_time() {
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra fields <<<"${stat##*) }" # the process name before it may have any characters
  [ "${fields[0]}" != Z ] && [ "${fields[0]}" != X ] && echo "${fields[19]}"
}

# remember FILE PID writes a pid file.
remember() {
  local started
  started=$(start_time "$2") || return 1
  echo "$2 $started $(boot_id)" >"$1"
}

# is_alive FILE succeeds if the process of the pid file still runs.
is_alive() {
  local pid started boot
  [ -s "$1" ] && read -r pid started boot <"$1" || return 1
  [ "$boot" = "$(boot_id)" ] && [ "$(start_time "$pid")" = "$started" ]
}

pid_in() { cut -d' ' -f1 "$1"; }

# launch NAME COMMAND... starts the command in a new session, with its output in NAME.out and its pid in NAME.pid.
launch() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"$name.out" 2>&1 9>&- &
  remember "$name.pid" $! || { note "$1 ended at once: $(tail -n 3 "$name.out")"; return 1; }
}

# signal FILE SIGNAL sends a signal to the process of the pid file if it still runs.
signal() { ! is_alive "$1" || kill "-$2" "$(pid_in "$1")"; }

# end FILE SIGNAL sends the signal, waits, after stop_limit kills, and removes the pid file.
# A stopped process is killed at once, since it cannot handle the signal.
end() {
  local file=$1 until=$((SECONDS + stop_limit))
  if is_alive "$file" && [ "$(ps -o state= -p "$(pid_in "$file")")" = T ]; then signal "$file" KILL; fi
  signal "$file" "$2"
  while is_alive "$file"; do
    if [ $SECONDS -ge $until ]; then signal "$file" KILL; fi
    sleep 0.05
  done
  rm -f "$file"
}

process_alive() { is_alive "$dir/$1/$1.pid"; }
process_wipe() { process_kill "$1" && rm -rf "$dir/$1/data"; }

# members SERVICE prints the pids of the service's processes. PostgreSQL has one for each
# connection, which runs on if only the main process is stopped.
members() {
  local main
  is_alive "$dir/$1/$1.pid" || return 0
  main=$(pid_in "$dir/$1/$1.pid")
  echo "$main"
  case $1 in postgres | pgstandby*) ps -o pid= --ppid "$main" || true ;; esac
}

signal_members() {
  local pid
  for pid in $(members "$1"); do kill "-$2" "$pid" 2>/dev/null || true; done
}

process_stop() {
  case $1 in
    postgres | pgstandby*)
      process_resume "$1"
      end "$dir/$1/$1.pid" QUIT # on TERM it would wait for the clients
      ;;
    *) end "$dir/$1/$1.pid" TERM ;;
  esac
}

# process_kill returns when all processes of the service have ended, so that a restarted
# server finds none of them.
process_kill() {
  local pids pid
  signal "$dir/$1/$1.pid" STOP # so that it starts no more processes
  pids=$(members "$1")
  signal_members "$1" KILL
  for pid in $pids; do
    while start_time "$pid" >/dev/null; do sleep 0.01; done
  done
  rm -f "$dir/$1/$1.pid"
}

# process_pause returns when every thread is stopped: on a busy machine that is some time
# after the signal. Processes that were started in the meantime are stopped, too.
process_pause() {
  local until=$((SECONDS + 60)) pid moving # a process that waits for a slow disk stops late
  while :; do
    signal_members "$1" STOP
    moving=
    for pid in $(members "$1"); do
      if ps -L -o state= -p "$pid" | grep -v '[TZ]' >/dev/null; then moving=$pid; fi
    done
    [ -n "$moving" ] || return 0
    [ $SECONDS -lt $until ] || { note "$1 does not stop"; return 1; }
    sleep 0.01
  done
}
process_resume() { signal_members "$1" CONT; }

# listening PORT succeeds if a process accepts connections on the port.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# port_of SERVICE USE prints the chosen port. It stays the same over restarts.
port_of() { cat "$dir/$1/$2.port" 2>/dev/null; }

# choose_port SERVICE USE keeps the port of the last run if it is free. New ports are below
# the kernel's range of ephemeral ports, and above the ports that tests reserve for parts
# that they restart (testenv.FreeAddress).
choose_port() {
  local file=$dir/$1/$2.port port
  port=$(port_of "$1" "$2" || true)
  while [ -z "$port" ] || listening "$port"; do port=$((25700 + RANDOM % 7000)); done
  echo "$port" >"$file"
}
process_pid() { pid_in "$dir/$1/$1.pid"; }
