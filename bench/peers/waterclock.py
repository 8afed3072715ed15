"""Waterclock as one of the peers: a scheduler process and a worker process, jobs stored in bulk."""

from __future__ import annotations

from dataclasses import replace

from bench.peers.contract import Jobs
from bench.peers.peer import Peer, Sizes
from bench.peers.runtimes import Own
from engine.config import Config
from engine.keys import BUCKET_MS, Layout, bucket_of, spread_tags
from engine.names import WORKER_QUEUE

_SHARDS = Layout(spread_tags(Config.model_fields["shards"].default)).shards


def _waiting(jobs: Jobs) -> list[tuple[str, ...]]:
    """Count the due index in the minutes in which the jobs are due; what recurs goes on in one an
    hour later."""
    minutes = range(jobs.at_ms // BUCKET_MS, (jobs.at_ms + jobs.over_ms) // BUCKET_MS + 1)
    buckets = [bucket_of(minute * BUCKET_MS) for minute in minutes]
    return [("ZCARD", shard.due(bucket)) for shard in _SHARDS for bucket in buckets]


def _unfinished(jobs: Jobs) -> list[tuple[str, ...]]:
    return [("XLEN", shard.ready(WORKER_QUEUE)) for shard in _SHARDS]


PEER = Peer(
    "waterclock",
    Own("on_waterclock"),
    "create_jobs of 2,000; one scheduler process, one worker process, concurrency 1,000; the rest"
    " as it comes",
    Sizes(spike=100_000, recurring=50_000, immediate=50_000, rates=(1_000, 10_000)),
    registers_per_s=12_000,
    waiting=_waiting,
    unfinished=_unfinished,
    roles=("scheduler", "work"),
    recurring_roles=("scheduler", "work"),
    startup_s=3,
)
EMBEDDED = replace(
    PEER,
    name="waterclock-embedded",
    sizes=replace(PEER.sizes, rates=(10_000,)),
    settings="the same on the embedded server, over its Unix socket",
    is_embedded=True,
)
