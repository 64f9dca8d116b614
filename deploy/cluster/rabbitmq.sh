#!/bin/sh
# Starts the host's node of RabbitMQ: rabbitmq.sh PEERS, the number of the other nodes. Two parts of it run alone, for the tests:
# rabbitmq.sh PEERS follow SERVER, and rabbitmq.sh PEERS watch SERVER FILE. SERVER is a process id.
#
# A node that was paused until the others gave it up serves clients without them when it goes on, and does not join them by
# itself. Its log then names every other node as partitioned. So it is ended, and the engine starts it again. A node that
# still has one of the others goes on. A node that has come up since it was named is there again: otherwise the node that is well
# would end itself once each of the others has been away.
#
# A node that was cut off waits for the others and starts again by itself, which hangs now and then. So a node that takes no clients
# for a minute is ended too. After each such end the node gets twice the time, four minutes at most: a start on a slow machine may just
# take longer.
set -eu
peers=$1

# follow SERVER: prints the log on its input, and ends SERVER when no other node is left.
follow() {
  lost= server=$1
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
      *"running_partitioned_network, '"*) node=${line##*running_partitioned_network, \'} ;;
      *"rabbit on node '"*"' up") node=${line##*rabbit on node \'} ;;
      *) continue ;;
    esac
    node=${node%%\'*} others=
    for one in $lost; do [ "$one" = "$node" ] || others="$others $one"; done
    case $line in *up) lost=$others ;; *) lost="$others $node" ;; esac
    set -- $lost
    [ $# -lt "$peers" ] || { echo "rabbitmq.sh: no other node is left:$lost; this node starts again"; kill -KILL "$server"; }
  done
}

# After a pause the member of a quorum queue may stay in pre_vote for good: its log ends exactly where the leader's snapshot does, it
# ignores that snapshot, and the leader sends it nothing else. That was seen with 3.10.8, and a restart of the member does not help.
# Another leader does. Newer versions may need it too: github.com/rabbitmq/ra has such a report, issue 418. So heal lets the node look
# at its own members every 30 s. If a member is in pre_vote twice under the same leader, the third node becomes the leader.
heal() {
  timeout 60 rabbitmqctl -q eval '
    Stuck = fun() -> [{Name, Leader, hd(Others)} ||
      Q <- rabbit_amqqueue:list_by_type(rabbit_quorum_queue),
      {Name, Leader} <- [amqqueue:get_pid(Q)], Leader =/= node(),
      [Row] <- [ets:lookup(ra_state, Name)], element(2, Row) =:= pre_vote,
      Others <- [maps:get(nodes, amqqueue:get_type_state(Q)) -- [node(), Leader]], Others =/= []] end,
    Move = fun({Name, Leader, Other}) ->
      Result = (catch ra:transfer_leadership({Name, Leader}, {Name, Other})),
      rabbit_log:warning("rabbitmq.sh: the member of ~s here gets no entries from ~s; ~s becomes the leader: ~p", [Name, Leader, Other, Result]) end,
    Look = fun Look(Before) ->
      timer:sleep(30000),
      Now = try Stuck() catch _:_ -> [] end, % the node may just be stopped, and go on
      [Move(Member) || Member <- Now, lists:member(Member, Before)],
      Look(Now) end,
    whereis(rideshare_heal) =/= undefined orelse
      register(rideshare_heal, spawn(fun() -> group_leader(whereis(init), self()), Look([]) end)).' >/dev/null
}

# watch SERVER FILE: ends SERVER once it has had no listener for too long. FILE keeps how many seconds the next start gets. When the
# listener is there, the node begins to heal its members.
watch() {
  silent=0 limit=60 heals=
  case $(cat "$2" 2>/dev/null) in 120) limit=120 ;; 240) limit=240 ;; esac
  while sleep 5; do
    if grep -Eq ':1628 0+:0000 0A' /proc/net/tcp /proc/net/tcp6; then
      silent=0 limit=60
      rm -f "$2" || :
      [ "$heals" ] || ! heal || heals=yes
    else
      silent=$((silent + 5))
    fi
    if [ "$silent" -ge "$limit" ]; then
      echo "rabbitmq.sh: no listener for $limit s; this node starts again"
      [ "$limit" -ge 240 ] || limit=$((2 * limit))
      echo "$limit" >"$2" || : # the disk may be full
      kill -KILL "$1" # last: the container ends with it, and this process too
      return
    fi
  done
}

if [ $# -gt 1 ]; then
  shift
  "$@"
  exit
fi
cookie=/var/lib/rabbitmq/.erlang.cookie
rm -f "$cookie"
(umask 077 && cat /run/secrets/erlang-cookie >"$cookie")
rm -f /tmp/log
mkfifo /tmp/log
rabbitmq-server >/tmp/log 2>&1 &
server=$!
trap 'kill -TERM $server' TERM INT
follow $server </tmp/log &
watch $server /var/lib/rabbitmq/start-limit &
wait $server && code=0 || code=$?
# A signal ends the wait, not the server.
while kill -0 $server 2>/dev/null; do wait $server && code=0 || code=$?; done
exit "$code"
