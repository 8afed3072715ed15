"""Lanes: what is limited, and to how much at this moment.

A lane is `q/<queue>`, `h/<host>` (with its port, in lower case), or `g/<queue>/<group>`. Pure: from
settings and time. What limits a lane at once is combined by taking the least.
"""

from __future__ import annotations

from dataclasses import replace

from engine.names import HTTP_QUEUE, Priority, streams_of
from engine.store.limits import Limit, Limits, Pushback

SLOW_START_MOST = 256
"""A host that has come to so many calls at once has recovered."""
DOUBLING_MS = 1_000


def slow_start(pushback: Pushback, now: int) -> int:
    """Return how many calls at once a host gets that has asked for less: none for as long as it
    said; then 1, or 4 if it did not say how long; then twice as many each second."""
    elapsed = now - pushback.at - pushback.wait_ms
    if elapsed < 0:
        return 0
    most = (1 if pushback.wait_ms else 4) << min(elapsed // DOUBLING_MS, 16)
    return min(most, SLOW_START_MOST)


def recovered(limits: Limits, now: int) -> list[str]:
    """Return the hosts whose slow start is over: they have come to their own limit, or to 256."""
    return [
        host
        for host, pushback in limits.pushbacks.items()
        if slow_start(pushback, now)
        >= min(_concurrency(limits.hosts.get(host, Limit())), SLOW_START_MOST)
    ]


def _concurrency(limit: Limit) -> int:
    return SLOW_START_MOST if limit.concurrency is None else limit.concurrency


def lanes_of(limits: Limits, now: int) -> dict[str, Limit]:
    """Return what each lane is limited to now; lanes without a limit are left out."""
    lanes = {
        f"q/{queue}": replace(settings.limit, concurrency=0) if settings.paused else settings.limit
        for queue, settings in limits.queues.items()
    }
    lanes |= {f"h/{host}": limit for host, limit in limits.hosts.items()}
    for host, pushback in limits.pushbacks.items():
        limit, most = lanes.get(f"h/{host}", Limit()), slow_start(pushback, now)
        if limit.concurrency is not None:
            most = min(most, limit.concurrency)
        lanes[f"h/{host}"] = replace(limit, concurrency=most)
    return {lane: limit for lane, limit in lanes.items() if limit != Limit(burst=limit.burst)}


def fair_queues(limits: Limits) -> set[str]:
    """Return the queues that groups share."""
    return {queue for queue, settings in limits.queues.items() if settings.fair}


def streams_to_watch(limits: Limits) -> list[str]:
    """Return the ready streams of which it counts how much nobody has started."""
    queues = {q for q, settings in limits.queues.items() if settings.fair or settings.limit.rate}
    if any(limit.rate for limit in limits.hosts.values()):
        queues |= {HTTP_QUEUE, *limits.queues}
    return [stream for queue in sorted(queues) for stream in streams_of(queue)]


def lane_of(bucket: str) -> str | None:
    """Return the lane that a bucket waits for; None if it waits for room in a ready stream."""
    name = bucket.removeprefix("@")
    for priority in Priority:
        name = name.removesuffix(f":{priority}")
    return name if "/" in name else None


def queue_of(lane: str) -> str:
    """Return the queue of a group's lane."""
    return lane.split("/")[1]
