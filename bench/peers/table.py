"""The peers: how each is set, as its documentation advises for throughput, and how much it gets."""

from __future__ import annotations

from bench.peers import waterclock
from bench.peers.peer import Commands, Peer, Sizes, due_in, due_later_in, lengths
from bench.peers.runtimes import JARS, Debian, Npm, Venv


def _saq(least: str) -> Commands:
    """Return what counts the jobs of SAQ that are not done, from a score on. Scheduled jobs are
    scored by the second, all others by 0; what recurs is scheduled again."""
    return lambda jobs: [
        ("ZCOUNT", "saq:default:incomplete", least, str((jobs.at_ms + jobs.over_ms) // 1000 + 1))
    ]


_ALL = (
    waterclock.PEER,
    waterclock.EMBEDDED,
    Peer(
        "bee-queue",
        Npm("bee_queue.js", "bee-queue"),
        "saveAll of 1,000; one worker process, concurrency 200, nothing kept, no events",
        Sizes(spike=100_000, recurring=0, immediate=50_000, rates=(1_000, 10_000)),
        registers_per_s=20_000,
        waiting=lengths("ZCARD bq:peers:delayed"),
        unfinished=lengths("LLEN bq:peers:waiting", "LLEN bq:peers:active"),
    ),
    Peer(
        "bullmq",
        Npm("bullmq.js", "bullmq", others=("ioredis",)),
        "addBulk of 1,000, job schedulers with a cron pattern, 200 at a time; one worker process,"
        " concurrency 300, nothing kept",
        Sizes(spike=100_000, recurring=2_000, immediate=50_000, rates=(1_000, 10_000)),
        registers_per_s=7_000,
        # A score is the time, and twelve bits that keep jobs of one time apart.
        waiting=due_in("bull:peers:delayed", 4_096),
        recurred=due_later_in("bull:peers:delayed", 4_096),
        unfinished=lengths("LLEN bull:peers:wait", "LLEN bull:peers:active"),
    ),
    Peer(
        "celery-redbeat",
        Venv("on_celery", ("celery[redis]", "celery-redbeat", "hiredis"), told=2),
        "one producer; one worker, two processes (one, without a pool, for immediate: each is the"
        " faster one there), prefetch multiplier 128, no gossip, mingle, heartbeats or results;"
        " RedBeat without its lock, max_interval 1 s",
        Sizes(spike=1_500, recurring=500, immediate=1_500, rates=(200,)),
        registers_per_s=700,
        unfinished=lengths("LLEN celery", "HLEN unacked"),
        recurred=lengths("LLEN celery"),
        roles=("prefork",),
        recurring_roles=("beat",),
        immediate_roles=("solo",),
        recurs_without_worker=True,
        startup_s=4,
    ),
    Peer(
        "arq",
        Venv("on_arq", ("arq", "uvloop")),
        "enqueue_job, 200 at a time, cron jobs in code; one worker process, uvloop, max_jobs 100,"
        " poll_delay 0.1 s, no results",
        Sizes(spike=5_000, recurring=1_000, immediate=5_000),
        registers_per_s=3_000,
        unfinished=lengths("ZCARD arq:queue"),
        recurring_in_code=True,
    ),
    Peer(
        "docket",
        Venv("on_docket", ("pydocket", "uvloop", "hiredis")),
        "add_many, perpetual tasks; one worker process, uvloop, concurrency 1,000, 4,000"
        " connections, checks each 0.25 s, executions not kept",
        Sizes(spike=2_500, recurring=1_000, immediate=2_500),
        registers_per_s=3_000,
        waiting=due_in("peers:queue", 0.001),
        recurred=due_later_in("peers:queue", 0.001),
        unfinished=lengths("XLEN peers:stream"),
    ),
    Peer(
        "saq",
        Venv("on_saq", ("saq[redis,hiredis]", "uvloop", "typing_extensions")),
        "enqueue, 200 at a time, cron jobs in code; one worker process, uvloop, concurrency 100,"
        " looks each second, nothing kept",
        Sizes(spike=2_500, recurring=100, immediate=5_000),
        registers_per_s=3_000,
        waiting=_saq("1"),
        unfinished=_saq("-inf"),
        recurring_in_code=True,
    ),
    Peer(
        "dramatiq",
        Venv("on_dramatiq", ("dramatiq[redis]", "hiredis")),
        "send_with_options; one worker process, 8 threads, prefetch 1,000, of its middleware only"
        " AgeLimit and Retries",
        Sizes(spike=5_000, recurring=0, immediate=5_000),
        registers_per_s=3_000,
        waiting=lengths("HLEN dramatiq:default.DQ.msgs"),
        unfinished=lengths("HLEN dramatiq:default.msgs"),
        environment={
            "dramatiq_queue_prefetch": "1000",
            "dramatiq_delay_queue_prefetch": "100000",
        },
    ),
    Peer(
        "apscheduler",
        Venv("on_apscheduler", ("apscheduler<4", "redis", "hiredis", "uvloop")),
        "version 3, Redis job store, asyncio executor, uvloop, jobs added before it starts",
        Sizes(spike=2_500, recurring=1_000, immediate=2_500),
        registers_per_s=1_000,
        roles=("in_redis",),
        recurring_roles=("in_redis",),
        immediate_roles=("in_redis",),
        registers_itself=True,
    ),
    Peer(
        "apscheduler-memory",
        Venv("on_apscheduler", ("apscheduler<4", "redis", "hiredis", "uvloop")),
        "the same with its memory job store: nothing survives the process",
        Sizes(spike=10_000, recurring=10_000, immediate=10_000),
        registers_per_s=6_000,
        roles=("in_memory",),
        recurring_roles=("in_memory",),
        immediate_roles=("in_memory",),
        registers_itself=True,
    ),
    Peer(
        "rq",
        Venv("on_rq", ("rq", "hiredis")),
        "enqueue_at and enqueue_many in pipelines of 1,000; one SimpleWorker with its scheduler, no"
        " results; CronScheduler",
        Sizes(spike=500, recurring=500, immediate=500, rates=(100,)),
        registers_per_s=3_000,
        waiting=lengths("ZCARD rq:scheduled:default"),
        unfinished=lengths("LLEN rq:queue:default", "ZCARD rq:wip:default"),
        recurred=lengths("LLEN rq:queue:default"),
        recurring_roles=("cron",),
        recurs_without_worker=True,
        recurring_in_code=True,
    ),
    Peer(
        "sidekiq",
        Debian("ruby", "sidekiq.rb", ("ruby-sidekiq", "ruby-sidekiq-cron", "ruby"), told=2),
        "push_bulk of 1,000; one process, concurrency 10, polls each second (5 by default);"
        " sidekiq-cron polls each second",
        Sizes(spike=5_000, recurring=250, immediate=10_000),
        registers_per_s=10_000,
        waiting=lambda jobs: [("ZCARD", "schedule")] if jobs.kind == "once" else [],
        unfinished=lengths("LLEN queue:default"),
    ),
    Peer(
        "quartz",
        Debian("java", "Quartz.java", ("libquartz2-java", "default-jdk-headless"), jars=JARS),
        "scheduleJobs of 1,000; RAM job store: nothing survives the process; 10 threads, batches"
        " of 10",
        Sizes(spike=50_000, recurring=50_000, immediate=50_000),
        registers_per_s=30_000,
        registers_itself=True,
        startup_s=4,
    ),
)  # fmt: skip

PEERS = {peer.name: peer for peer in _ALL}
