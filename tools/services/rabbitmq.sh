# RabbitMQ: one node with its own epmd, cookie and data. Sourced by services.sh.

rabbitmq_sbin() { compgen -G '/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin' | sort -V | tail -n 1; }

rabbitmq_password() {
  local file=$dir/rabbitmq/password
  if [ ! -s "$file" ]; then (umask 077 && od -An -N12 -tx1 /dev/urandom | tr -d ' \n' >"$file"); fi
  cat "$file"
}

rabbitmq_url() { echo "amqp://rideshare:$(rabbitmq_password)@127.0.0.1:$(port_of rabbitmq client)/"; }

rabbitmq_env() {
  echo "RABBITMQ_URL=$(rabbitmq_url)"
  echo "RABBITMQCTL='$dir/rabbitmq/rabbitmqctl'"
  echo "RABBITMQ_PID=$(in_mode rabbitmq pid)"
}

# rabbitmq_answers succeeds if the broker begins a connection. Its first frame begins with byte 1.
rabbitmq_answers() {
  local port first
  port=$(port_of rabbitmq client) || return 1
  {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'AMQP\x00\x00\x09\x01' >&3
    IFS= read -r -t 2 -N 1 first <&3
    exec 3>&-
  } 2>/dev/null
  [ "${first:-}" = $'\x01' ]
}

rabbitmq_start_process() {
  local base=$dir/rabbitmq use sbin
  sbin=$(rabbitmq_sbin)
  for use in client dist; do choose_port rabbitmq "$use"; done
  if ! is_alive "$base/epmd.pid"; then choose_port rabbitmq epmd; fi
  mkdir -p "$base/data" "$base/log"
  cat >"$base/rabbitmq.conf" <<END
listeners.tcp.local = 127.0.0.1:$(port_of rabbitmq client)
default_user = rideshare
default_pass = $(rabbitmq_password)
disk_free_limit.absolute = 50MB
max_message_size = 134217728
log.file = $base/log/rabbitmq.log
log.console = false
END
  echo '[].' >"$base/enabled_plugins"
  rabbitmq_settings >"$base/settings"
  rabbitmq_wrapper "$sbin/rabbitmqctl" >"$base/rabbitmqctl"
  rabbitmq_wrapper "$sbin/rabbitmq-server" >"$base/server"
  chmod 700 "$base/rabbitmqctl" "$base/server" "$base/rabbitmq.conf"
  # An epmd that the first Erlang program started by itself would have no pid file, and
  # would listen on every address.
  is_alive "$base/epmd.pid" || launch "$base/epmd" epmd -address 127.0.0.1 -port "$(port_of rabbitmq epmd)"
  # With this variable the start script replaces itself by the virtual machine (exec), so that the pid is the broker's.
  RUNNING_UNDER_SYSTEMD=true launch "$base/rabbitmq" "$base/server"
  ln -sf rabbitmq.out "$base/out"
}

# rabbitmq_settings prints the environment of the node and of its tools. The host name is
# not part of the node's name, since it may change while the data stay. The nodes of a
# cluster have names, in a file (internal/testkit/testenv/cluster.go). net_setuptime is
# that of deploy/cluster; a single node never uses it.
rabbitmq_settings() {
  local base=$dir/rabbitmq loopback='-kernel inet_dist_use_interface {127,0,0,1}'
  cat <<END
export HOME='$base' LANG=C.UTF-8
export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$(port_of rabbitmq epmd)
export RABBITMQ_NODENAME=$(cat "$base/name" 2>/dev/null || echo rideshare)@localhost RABBITMQ_DIST_PORT=$(port_of rabbitmq dist)
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE='$base/rabbitmq.conf'
export RABBITMQ_ADVANCED_CONFIG_FILE='$base/advanced.config' RABBITMQ_CONFIG_FILES='$base/conf.d'
export RABBITMQ_ENABLED_PLUGINS_FILE='$base/enabled_plugins'
export RABBITMQ_MNESIA_BASE='$base/data' RABBITMQ_LOG_BASE='$base/log' RABBITMQ_PID_FILE='$base/node.pid'
export RABBITMQ_GENERATED_CONFIG_DIR='$base/data/config' RABBITMQ_FEATURE_FLAGS_FILE='$base/data/feature_flags'
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='$loopback -kernel net_setuptime 3' RABBITMQ_CTL_ERL_ARGS='$loopback'
END
}

rabbitmq_wrapper() { printf '#!/bin/sh\n. "%s"\nexec "%s" "$@"\n' "$dir/rabbitmq/settings" "$1"; }

rabbitmq_start_container() {
  local base=$dir/rabbitmq
  choose_port rabbitmq client
  printf '#!/bin/sh\nexec docker exec "%s" rabbitmqctl "$@"\n' "$(container_name rabbitmq)" >"$base/rabbitmqctl"
  chmod 700 "$base/rabbitmqctl"
  # The host name is part of the path of the data.
  container_start rabbitmq 5672 --hostname rideshare \
    -e RABBITMQ_DEFAULT_USER=rideshare -e RABBITMQ_DEFAULT_PASS="$(rabbitmq_password)"
}
