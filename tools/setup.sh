#!/usr/bin/env bash
# The race detector needs a C compiler. Everything else that the tests need
# comes with the Go modules.
set -euo pipefail
if command -v "${CC:-gcc}" >/dev/null 2>&1 || command -v cc >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "setup: installing gcc for the race detector"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 gcc libc6-dev
  exit 0
fi
echo "setup: the race detector needs a C compiler: install gcc (Debian: apt-get install gcc libc6-dev) and try again" >&2
exit 1
