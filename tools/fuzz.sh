#!/usr/bin/env bash
# Runs every fuzz target of the module for the time given, one after the other.
set -euo pipefail
time=${1:-30s}
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | awk '{print $2}'); do
    echo "fuzz: $dir $target for $time"
    "${GO:-go}" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
  done
done
