# Making and saving secrets. deploy/secrets.sh and deploy/cluster/init.sh source this file.

random() { od -An -v -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
unhex() { printf "$(sed 's/../\\x&/g' <<<"$1")"; } # hexadecimal digits to bytes
# save FILE writes standard input to the file, whole or not at all, even if an interrupted run has left files. The file is readable by
# all, since the user of a container reads it; its directory is closed to other users.
save() { rm -f "$1.new" && cat >"$1.new" && chmod 444 "$1.new" && mv -f "$1.new" "$1"; }
# hash PASSWORD prints RabbitMQ's password hash: a salt, then the SHA-256 of salt and password.
hash() {
  local salt digest
  salt=$(random 4)
  digest=$({ unhex "$salt"; printf %s "$1"; } | sha256sum | cut -d' ' -f1)
  unhex "$salt$digest" | base64 -w0
}
