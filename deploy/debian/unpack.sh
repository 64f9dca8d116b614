#!/usr/bin/env bash
# Makes a root file system of Debian packages, unpacked as they are: no package
# manager, no maintainer scripts, no shell but busybox. apt checks the signatures.
#
#   unpack.sh OUT.tar FINISH.sh PACKAGE...
#
# FINISH.sh runs in the new root and makes it one program's image.
set -euo pipefail

out=$1 finish=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs" "$work/root"
chmod 755 "$work" "$work/debs"

download() (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User=root download "$@" busybox-static libc6 >/dev/null)
# The second attempt may get other versions of what the first has left.
download "$@" 2>/dev/null || { rm -f "$work"/debs/*; apt-get -qq update && download "$@"; }

cd "$work/root"
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 etc tmp var/lib var/log run root
chmod 1777 tmp
for link in bin sbin lib lib64; do ln -s "usr/$link" "$link"; done # the loader is looked for in /lib64
for deb in "$work"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
done
for tool in sh cat ls mkdir rm cp mv chmod chown ln touch sed grep dirname basename readlink id hostname nc awk cut tr head tail sort \
  sleep ps kill env test '[' printf echo true false find df du date od wc expr uname which xargs mktemp stat tee mkfifo timeout; do
  [ -e "usr/bin/$tool" ] || ln -s busybox "usr/bin/$tool"
done
echo 'hosts: files dns' >etc/nsswitch.conf
sh "$finish"
tar -c --numeric-owner --sort=name --mtime=@0 -C . . >"$out"
