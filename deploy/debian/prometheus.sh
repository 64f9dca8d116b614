# Finishes the root of the Prometheus image: user and paths as in the official one.
set -eu
echo 'root:x:0:0::/root:/bin/sh
nobody:x:65534:65534::/prometheus:/bin/sh' >etc/passwd
echo 'root:x:0:
nobody:x:65534:' >etc/group
mkdir -p prometheus
chown 65534:65534 prometheus
ln -s busybox usr/bin/wget # the health check needs it
rm -f usr/bin/promtool
