# ZooKeeper: one server, or one of an ensemble if DIR/zookeeper/ensemble.cfg has the
# settings that its servers share. Sourced by services.sh.

zookeeper_url() { echo "zk://127.0.0.1:$(port_of zookeeper client)"; }

zookeeper_env() {
  echo "ZOOKEEPER_URL=$(zookeeper_url)"
  echo "ZOOKEEPER_PID=$(in_mode zookeeper pid)"
}

# zookeeper_answers succeeds if the server serves. A server that is still loading answers that it does not.
zookeeper_answers() {
  local port line
  port=$(port_of zookeeper client) || return 1
  {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf srvr >&3
    while IFS= read -r -t 2 line <&3; do
      case $line in Mode:*) exec 3>&-; return 0 ;; esac
    done
    exec 3>&-
  } 2>/dev/null
  return 1
}

# Sessions from 2 s (two ticks) to 20 s. A test machine opens many connections
# from one address, so their number is not limited.
zookeeper_start_process() {
  local base=$dir/zookeeper
  choose_port zookeeper client
  mkdir -p "$base/data"
  cat >"$base/zoo.cfg" <<END
tickTime=1000
minSessionTimeout=2000
maxSessionTimeout=20000
dataDir=$base/data
clientPort=$(port_of zookeeper client)
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok,mntr,cons
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
END
  if [ -e "$base/ensemble.cfg" ]; then cat "$base/ensemble.cfg" >>"$base/zoo.cfg"; fi
  # A small heap and only the first compiler: the server starts faster and leaves the cores
  # to the tests. It does not sync its log, so a slow disk does not end sessions; it need
  # not survive a power cut.
  launch "$base/zookeeper" java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true -Dzookeeper.forceSync=no \
    -Djava.io.tmpdir="$base/data" -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$base/zoo.cfg"
  ln -sf zookeeper.out "$base/out"
}

zookeeper_start_container() {
  [ ! -e "$dir/zookeeper/ensemble.cfg" ] || die "an ensemble needs the packages of ZooKeeper"
  choose_port zookeeper client
  container_start zookeeper 2181 -e ZOO_TICK_TIME=1000 -e ZOO_MAX_CLIENT_CNXNS=0 -e ZOO_ADMINSERVER_ENABLED=false \
    -e ZOO_4LW_COMMANDS_WHITELIST=srvr,ruok,mntr,cons -e ZOO_CFG_EXTRA='minSessionTimeout=2000 maxSessionTimeout=20000' \
    -e JVMFLAGS=-Dzookeeper.forceSync=no
}
