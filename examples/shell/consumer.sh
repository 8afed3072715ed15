#!/bin/sh
# A consumer of one queue in plain sh with redis-cli, by lua/README.md: each execution is a run of COMMAND, which gets the
# payload on its standard input and the execution id in EXECUTION_ID; exit status 0 is success.
#
#     waterclock scripts export scripts
#     sh consumer.sh redis://127.0.0.1:6379/0 mail scripts 'cat'          # until SIGTERM
#
# It knows the backoffs exponential, linear and fixed, without jitter.

set -eu
url=$1 queue=$2 scripts=$3 command=$4
name=${NAME:-shell-$$}
lease_ms=10000 max_deliveries=5 history=50 ledger=2000 # as the deployment is set

redis() { redis-cli -u "$url" --no-auth-warning "$@"; }

# Run a script: run NAME NUMBER_OF_KEYS KEY… ARG…. A server forgets scripts: load it then, and send again.
run() {
    script=$1 && shift
    sha=$(sha1sum <"$scripts/$script.lua") && sha=${sha%% *}
    reply=$(redis evalsha "$sha" "$@" 2>&1) || true
    case $reply in *NOSCRIPT*)
        redis -x script load <"$scripts/$script.lua" >/dev/null
        reply=$(redis evalsha "$sha" "$@" 2>&1) || true ;;
    esac
    printf '%s\n' "$reply"
}

now() { redis time | { read -r s && read -r us && echo $((s * 1000 + us / 1000)); }; }
number() { n=$(printf %s "$retry" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p") && echo "${n:-$2}"; }

# Set key, entry, deliveries and what the entry holds from the lines that redis-cli prints; false if there are none.
parse() {
    read -r first || return 1
    execution_id='' expires_at='' retry='' since='' lapsed=''
    while read -r field && IFS= read -r value; do
        case $field in execution_id | attempt | expires_at | payload | retry | since | lapsed) eval "$field=\$value" ;; esac
    done
    [ -n "$execution_id" ]
}

# Set the fields of the next delivery, a new one or one whose lease ran out; false if there is none.
take() {
    case $(redis hget wc:queues "$queue") in *'"paused":true'*) return 1 ;; esac
    for stream in "$queue:high" "$queue" "$queue:low"; do
        for tag in $tags; do
            prefix="wc:{$tag}:" ready="wc:{$tag}:ready:$stream"
            redis xgroup create "$ready" workers 0 mkstream >/dev/null 2>&1 || true
            keys="$ready ${prefix}jobs ${prefix}buckets ${prefix}dead ${prefix}gates ${prefix}outbox ${prefix}ledger"
            common="${prefix}job: ${prefix}due: ${prefix}runs: ${prefix}letter: ${prefix}inputs: $history $ledger"
            # Cursor, poisoned, then entry, deliveries and fields; a new entry comes behind the name of its stream.
            run reclaim_executions 7 $keys "$name" "$(now)" "$stream" $lease_ms $max_deliveries - 100 1 $common >"$work/taken"
            if [ "$(sed -n '3,$p' "$work/taken")" ]; then
                entry=$(sed -n 3p "$work/taken") deliveries=$(sed -n 4p "$work/taken") from=4
            else
                redis xreadgroup group workers "$name" count 1 streams "$ready" '>' >"$work/taken"
                entry=$(sed -n 2p "$work/taken") deliveries=1 from=2
            fi
            sed -n "$from,\$p" "$work/taken" >"$work/fields"
            if parse <"$work/fields"; then
                started_at=$(now) at=${execution_id#*@}
                return 0
            fi
        done
    done
    return 1
}

# end OUTCOME DETAIL SINCE RECORD
end() {
    run complete_executions 7 $keys "$name" "$(now)" "$stream" $common \
        "$entry" "$deliveries" "$execution_id" "$attempt" "$1" "$2" "$3" "$4" ''
}

# record OUTCOME [, the rest]
record() { echo "[$at,\"$1\",$attempt,$deliveries,\"$name\",$((started_at - at)),$(($(now) - started_at))${2-}]"; }

fail() {
    began_at=${since%%.*} base=${since#*.} && began_at=${began_at:-$started_at} base=${base:-0}
    n=$((attempt - base)) wait_ms=$(number base_ms 1000) max_ms=$(number max_ms 3600000)
    case $retry in
    *'"backoff":"fixed"'*) ;;
    *'"backoff":"linear"'*) wait_ms=$((wait_ms * n)) ;;
    *) while [ $((n -= 1)) -gt 0 ] && [ "$wait_ms" -lt "$max_ms" ]; do wait_ms=$((wait_ms * 2)); done ;;
    esac
    [ "$wait_ms" -le "$max_ms" ] || wait_ms=$max_ms
    begins_ms=$(($(now) + wait_ms - began_at))
    if [ $((attempt - base)) -ge "$(number max_attempts 3)" ] || [ $begins_ms -ge "$(number deadline_ms 99999999999)" ] ||
        [ $begins_ms -gt "$(number max_elapsed_ms 99999999999)" ]; then
        end dead exhausted '' "$(record dead ",null,\"$1\"")"
    else
        end failed $(($(now) + wait_ms)) "$began_at.$base" "$(record failed ",null,\"$1\"")"
    fi
}

# Extends the lease; were it lost, the end of the execution would be answered `stale`.
beat() { while sleep $((lease_ms / 3000)); do run heartbeat_executions 1 "$ready" "$name" "$entry" "$deliveries" >/dev/null; done; }

work=$(mktemp -d)
trap 'kill $beats 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'stopped=1' INT TERM
stopped='' beats=''
layout=$(redis get wc:layout)
case $layout in *'"version":2,'*) ;; *) echo "this layout is not known here: $layout" >&2 && exit 1 ;; esac
tags=$(printf %s "$layout" | sed 's/.*"tags":\[\([^]]*\)\].*/\1/; s/[",]/ /g')

while [ -z "$stopped" ]; do
    if ! take; then
        sleep 0.5
        continue
    fi
    if [ "$lapsed" = gated ]; then
        word=$(end skipped '' '' "[$at,\"skipped\",$at,1,1,\"upstream_late\"]")
    elif [ -n "$lapsed" ]; then
        word=$(fail 'timeout: the target fell silent')
    elif [ "$deliveries" = 1 ] && [ -n "$expires_at" ] && [ "$started_at" -ge "$expires_at" ]; then
        word=$(end skipped '' '' "[$at,\"skipped\",$at,1,1,\"expired\"]")
    else
        beat >/dev/null &
        beats=$!
        status=0
        printf %s "$payload" | EXECUTION_ID=$execution_id sh -c "$command" || status=$?
        kill "$beats" 2>/dev/null || true
        if [ $status = 0 ]; then word=$(end succeeded '' '' "$(record succeeded)"); else word=$(fail "exit status $status"); fi
    fi
    echo "$execution_id: $word"
done
for tag in $tags; do
    for stream in "$queue:high" "$queue" "$queue:low"; do
        run forget_consumers 1 "wc:{$tag}:ready:$stream" 0 "$name" >/dev/null
    done
done
