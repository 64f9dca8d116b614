#!/usr/bin/env bash
# Plays the load scenes of both examples in full, and some of them in several ways side by side. The system runs on
# RabbitMQ and ZooKeeper of its own, which the scenes kill, with a process for each worker.
#
#   tests/load/examples.sh [NAME ...]
#
# A NAME is one of the plays below, such as ski-200k-async. Without a name all are played, in about an hour on two cores.
# SCALE (1) makes the scenes smaller. OUT, by default .examples of this checkout, gets the logs, and for each play the
# report as JSON and HTML. The table at the end has each load of each play. The exit code is 1 if a play failed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
out=${OUT:-$root/.examples}
scale=${SCALE:-1}
pids=()
failed=()

note() { echo "examples: $*" >&2; }
die() { note "$*"; exit 1; }

# await PID FILE TEXT waits until FILE has a line with TEXT, and prints what follows TEXT on that line.
await() {
  local tries=0
  until grep -q "$3" "$2" 2>/dev/null; do
    tries=$((tries + 1))
    kill -0 "$1" 2>/dev/null || die "$2: ended: $(tail -n 3 "$2")"
    [ "$tries" -lt 600 ] || die "$2: not ready after a minute"
    sleep 0.1
  done
  sed -n "s/.*$3//p" "$2" | head -n 1
}

# begin LOG COMMAND... starts a process, which is ended at the end of its play.
begin() {
  local log=$1
  shift
  : >"$log" # await must not find the lines of an earlier run
  "$@" >"$log" 2>&1 &
  pids+=($!)
}

end() {
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[$i]}" 2>/dev/null || true
    wait "${pids[$i]}" 2>/dev/null || true
  done
  pids=()
}

# with_system NAME starts a system with an empty database, and sets ORCHESTRATOR to its address.
with_system() {
  rm -rf "$out/data" "$out/ready.json"
  begin "$out/$1.system.log" "$out/rideshare" up --data "$out/data" --ready-file "$out/ready.json" \
    --bus "$RABBITMQ_URL" --coordinator "$ZOOKEEPER_URL/$1" --launcher process --prefix "$1-" \
    --gateway 127.0.0.1:0 --users 127.0.0.1:0 --rides 127.0.0.1:0 --orchestrator 127.0.0.1:0
  await "${pids[-1]}" "$out/ready.json" '"orchestrator":"' >/dev/null
  ORCHESTRATOR=$(sed -E 's/.*"orchestrator":"([^"]*)".*/\1/' "$out/ready.json")
}

# play NAME EXAMPLE SCENE INSTANCES FLAG... starts instances of the example with the flags, and plays the scene on them, with the
# flags of SCENE_FLAGS.
play() {
  local name=$1 example=$2 scene=$3 instances=$4 urls=() i
  shift 4
  wanted "$name" || return 0
  note "$name"
  with_system "$name"
  for ((i = 0; i < instances; i++)); do
    begin "$out/$name.$i.log" "$out/$example" --database "$ORCHESTRATOR" --listen 127.0.0.1:0 "$@"
    urls+=("http://$(await "${pids[-1]}" "$out/$name.$i.log" 'http:\/\/' | tr -d '"')")
  done
  # shellcheck disable=SC2086 # a list of flags
  "$out/$example" load "$scene" --database "$ORCHESTRATOR" --service "$(IFS=,; echo "${urls[*]}")" --scale "$scale" ${SCENE_FLAGS:-} \
    --json "$out/$name.json" --html "$out/$name.html" --broker-kill "$broker kill --dir $out/services rabbitmq" \
    --broker-start "$broker start --dir $out/services rabbitmq" >"$out/$name.txt" 2>"$out/$name.progress" &
  pids+=($!)
  wait $! || failed+=("$name")
  unset 'pids[-1]'
  end
}

names=("$@")
wanted() {
  [ ${#names[@]} -gt 0 ] || return 0
  local name
  for name in "${names[@]}"; do [ "$name" != "$1" ] || return 0; done
  return 1
}

mkdir -p "$out"
(cd "$root" && CGO_ENABLED=0 go build -o "$out/" ./cmd/rideshare ./examples/skilift ./examples/flashsale)
broker=$root/tools/services.sh
trap 'end; "$broker" stop --dir "$out/services" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
"$broker" start --dir "$out/services" --owner $$ rabbitmq zookeeper >&2
. "$out/services/env"

if wanted writes; then # plain writes, to compare with
  note writes
  BENCH_BUS=$RABBITMQ_URL BENCH_COORDINATOR=$ZOOKEEPER_URL/bench "$out/rideshare" bench --paths batched --works write --clients 128 \
    --loops closed --json "$out/writes.json" >"$out/writes.txt" 2>"$out/writes.progress" || failed+=(writes)
fi
play ski-200k skilift ski-200k 1
play ski-200k-alone skilift ski-200k 1 --batch 1
play ski-200k-async skilift ski-200k 1 --ingest async
play ski-180k skilift ski-180k 1
SCENE_FLAGS='--threads 64' play ski-180k-64 skilift ski-180k 1
SCENE_FLAGS='--threads 256' play ski-180k-256 skilift ski-180k 1
play ski-read skilift ski-read 1
# Without the cache each unique-skiers query reads all rides of a day: a twentieth of them, and the same with the cache.
SCENE_FLAGS='--scale 0.05' play ski-read-small skilift ski-read 1
CACHE=off SCENE_FLAGS='--scale 0.05' play ski-read-uncached skilift ski-read 1
play ski-queryable skilift ski-queryable 1
play ski-kill skilift ski-kill 1
play ski-sweep skilift ski-sweep 1
play ski-breaker skilift ski-breaker 1
play storm flashsale storm 1
SCENE_FLAGS='--sold-out-flag=false --orders 200000' play storm-unflagged flashsale storm 1 --sold-out-flag=false
play storm-limited flashsale storm 1 --rate flash-1000
play storm-leases flashsale storm 1 --leases 1
play burst flashsale burst 1
play same-user flashsale same-user 1
play expire flashsale expire 3
play leases flashsale leases 1
play kill flashsale kill 1

for text in "$out"/*.txt; do
  wanted "$(basename "$text" .txt)" || continue
  echo "== $(basename "$text" .txt)"
  cat "$text"
done
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}; see $out"
