# Finishes the root of the PostgreSQL image: user and paths as in the official one.
set -eu
echo 'root:x:0:0::/root:/bin/sh
postgres:x:999:999::/var/lib/postgresql:/bin/sh' >etc/passwd
echo 'root:x:0:
postgres:x:999:' >etc/group
mkdir -p var/lib/postgresql/data
chown -R 999:999 var/lib/postgresql
rm -rf usr/lib/postgresql/15/lib/bitcode # the log needs no compiler
