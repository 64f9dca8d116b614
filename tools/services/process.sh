# Processes by pid file, ports by file. Sourced by services.sh.
#
# A pid file holds pid, start time and boot id: a pid alone may belong to anybody
# after the process is gone or the machine was started again.

boot_id() { cat /proc/sys/kernel/random/boot_id; }

# start_time PID: in clock ticks since boot; fails for a process that is gone or a zombie.
start_time() {
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra fields <<<"${stat##*) }" # the name before it may hold anything
  [ "${fields[0]}" != Z ] && [ "${fields[0]}" != X ] && echo "${fields[19]}"
}

# remember FILE PID
remember() {
  local started
  started=$(start_time "$2") || return 1
  echo "$2 $started $(boot_id)" >"$1"
}

# is_alive FILE: the very process that was remembered lives.
is_alive() {
  local pid started boot
  [ -s "$1" ] && read -r pid started boot <"$1" || return 1
  [ "$boot" = "$(boot_id)" ] && [ "$(start_time "$pid")" = "$started" ]
}

pid_in() { cut -d' ' -f1 "$1"; }

# launch NAME COMMAND...: in a session of its own, output in NAME.out, pid in NAME.pid.
launch() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"$name.out" 2>&1 9>&- &
  remember "$name.pid" $! || { note "$1 ended at once: $(tail -n 3 "$name.out")"; return 1; }
}

# signal FILE SIGNAL
signal() { ! is_alive "$1" || kill "-$2" "$(pid_in "$1")"; }

# end FILE SIGNAL: asks, waits, insists; the pid file goes with the process. A
# frozen process is killed at once, since it cannot obey.
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

# members SERVICE: the pids of its processes. PostgreSQL has one for each connection,
# which stays when only the first one is stopped.
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
      end "$dir/$1/$1.pid" QUIT # TERM waits for the clients
      ;;
    *) end "$dir/$1/$1.pid" TERM ;;
  esac
}

# process_kill returns when all its processes are gone: a server that is started
# again finds no remains of the last one.
process_kill() {
  local pids pid
  signal "$dir/$1/$1.pid" STOP # It starts no more processes.
  pids=$(members "$1")
  signal_members "$1" KILL
  for pid in $pids; do
    while start_time "$pid" >/dev/null; do sleep 0.01; done
  done
  rm -f "$dir/$1/$1.pid"
}

# process_pause returns when every thread stands still: on a busy machine that is some
# time after the signal. Processes that came meanwhile are stopped, too.
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

# listening PORT: somebody accepts on it.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# port_of SERVICE USE: the port, once chosen. It stays the same over restarts.
port_of() { cat "$dir/$1/$2.port" 2>/dev/null; }

# choose_port SERVICE USE: keeps the port of the last run if it is free. New ones are
# below the range from which the kernel gives ports to clients, and above those that tests hold for parts that they start
# again (testenv.FreeAddress).
choose_port() {
  local file=$dir/$1/$2.port port
  port=$(port_of "$1" "$2" || true)
  while [ -z "$port" ] || listening "$port"; do port=$((25700 + RANDOM % 7000)); done
  echo "$port" >"$file"
}
process_pid() { pid_in "$dir/$1/$1.pid"; }
