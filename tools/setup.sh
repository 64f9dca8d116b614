#!/usr/bin/env bash
# Installs what the tests need: a C compiler for the race detector, git to apply the patches of make mutants, a browser with
# a font for the console, Prometheus with promtool for the alert rules, openssl for the certificates of a cluster. Everything else comes with the Go modules.
set -euo pipefail
packages=()
if ! command -v "${CC:-gcc}" >/dev/null 2>&1 && ! command -v cc >/dev/null 2>&1; then packages+=(gcc libc6-dev); fi
command -v git >/dev/null 2>&1 || packages+=(git)
command -v chromium >/dev/null 2>&1 || packages+=(chromium fonts-dejavu-core)
command -v openssl >/dev/null 2>&1 || packages+=(openssl)
{ command -v prometheus && command -v promtool; } >/dev/null 2>&1 || packages+=(prometheus)
if [ ${#packages[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "setup: installing ${packages[*]}"
  policy=/usr/sbin/policy-rc.d # the package of promtool must not start Prometheus
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "${packages[@]}"
  exit 0
fi
echo "setup: the tests need ${packages[*]}: install them (Debian: apt-get install ${packages[*]}) and try again" >&2
exit 1
