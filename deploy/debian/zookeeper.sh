# Finishes the root of the ZooKeeper image: user, paths and variables as in the official one.
set -eu
echo 'root:x:0:0::/root:/bin/sh
zookeeper:x:1000:1000::/data:/bin/sh' >etc/passwd
echo 'root:x:0:
zookeeper:x:1000:' >etc/group
mkdir -p conf data datalog logs
chown 1000:1000 data datalog logs
java=$(echo usr/lib/jvm/java-17-openjdk-*/bin/java)
ln -sf "/$java" usr/bin/java
# The package's configuration lies in /etc and is found by links.
cat >usr/bin/zookeeper-server <<'END'
#!/bin/sh
# shellcheck disable=SC2086 # options
[ -z "${ZOO_MY_ID:-}" ] || [ -e /data/myid ] || echo "$ZOO_MY_ID" >/data/myid
exec java ${SERVER_JVMFLAGS:--Xmx128m} -Djava.awt.headless=true -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
  org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
END
chmod 755 usr/bin/zookeeper-server
