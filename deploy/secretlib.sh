# How secrets are made and kept; deploy/secrets.sh and deploy/cluster/init.sh read this file.

random() { od -An -v -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
unhex() { printf "$(sed 's/../\\x&/g' <<<"$1")"; } # hexadecimal digits to bytes
# save FILE: standard input, whole or not at all, whatever an interrupted run has left. All may read it, since the user of a container does; nobody else enters its directory.
save() { rm -f "$1.new" && cat >"$1.new" && chmod 444 "$1.new" && mv -f "$1.new" "$1"; }
# hash PASSWORD as RabbitMQ keeps it: a salt, then the SHA-256 of salt and password.
hash() {
  local salt digest
  salt=$(random 4)
  digest=$({ unhex "$salt"; printf %s "$1"; } | sha256sum | cut -d' ' -f1)
  unhex "$salt$digest" | base64 -w0
}
