# Finishes the root of the RabbitMQ image: user and paths as in the official one.
set -eu
echo 'root:x:0:0::/root:/bin/sh
rabbitmq:x:999:999::/var/lib/rabbitmq:/bin/sh' >etc/passwd
echo 'root:x:0:
rabbitmq:x:999:' >etc/group
mkdir -p var/lib/rabbitmq var/log/rabbitmq etc/rabbitmq
chown -R 999:999 var/lib/rabbitmq var/log/rabbitmq
home=$(echo usr/lib/rabbitmq/lib/rabbitmq_server-*)
ln -s "/$home" opt_rabbitmq
# Erlang searches every plugin's directory for every module: with those that
# nobody uses the start takes twice as long.
for plugin in "$home"/plugins/*; do
  name=$(basename "$plugin")
  case ${name%%-*} in
    amqp10_common | aten | credentials_obfuscation | cuttlefish | enough | gen_batch_server | jsx | observer_cli | osiris | ra | rabbit | \
      rabbit_common | rabbitmq_prelaunch | ranch | recon | seshat | stdout_formatter | syslog | sysmon_handler | systemd | README*) ;;
    *) rm -rf "$plugin" ;;
  esac
done
mkdir -p opt && mv opt_rabbitmq opt/rabbitmq
# Debian's wrappers want su and write the log into files; the server's own do not.
for tool in rabbitmq-server rabbitmqctl rabbitmq-diagnostics rabbitmq-plugins rabbitmq-queues; do
  rm -f "usr/sbin/$tool"
  ln -s "/opt/rabbitmq/sbin/$tool" "usr/sbin/$tool"
done
