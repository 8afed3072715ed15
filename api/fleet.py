"""The fleet over HTTP: shards, schedulers, workers, and the server below them all."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.wire import JsonResponse, rfc_3339
from engine import __version__
from engine.keys import LAYOUT_VERSION
from engine.plan import ZONE_DATABASE
from engine.store.facts import ReplicaFacts, ServerFacts, read_server
from engine.store.fleet import (
    SchedulerStanding,
    ShardStanding,
    WorkerStanding,
    count_jobs,
    known_queues,
    read_schedulers,
    read_shards,
    read_workers,
)
from engine.store.processes import Process, read_processes


class ShardOut(TypedDict):
    shard: int
    tag: str
    holder: str | None
    """The scheduler that fires for it."""
    fencing_token: int
    lease_left_ms: int
    oldest_due_at: str | None
    lag_ms: int
    """How long what is due the longest has been due."""
    buckets: int
    waiting: int
    """With `running`, in the queues that are known."""
    running: int
    jobs: int


class ProcessOut(TypedDict):
    """Who announces itself: all is null of one that does not."""

    host: str | None
    pid: int | None
    version: str | None
    timezones: str | None
    clock_skew_ms: int | None
    """How far its machine's clock is ahead of the server's."""
    started_at: str | None


class SchedulerOut(ProcessOut):
    scheduler: str
    shards: list[int]
    last_seen_at: str | None


class WorkerOut(ProcessOut):
    worker: str
    queues: list[str]
    concurrency: int | None
    running: int
    last_seen_at: str


class ReplicaOut(TypedDict):
    address: str
    state: str
    lag_s: int | None
    behind_bytes: int


class PersistenceOut(TypedDict):
    appendonly: bool
    appendfsync: str | None
    last_write_ok: bool
    last_rewrite_ok: bool
    appendonly_bytes: int | None
    save: str | None
    last_save_ok: bool
    last_save_at: str | None


class MemoryOut(TypedDict):
    used_bytes: int
    most_bytes: int | None
    policy: str


class DeploymentOut(TypedDict):
    shards: int
    layout_version: int
    jobs: int
    versions: list[str]
    """Of this API, and of the processes that announce themselves."""
    timezones: str
    """The edition of this API's time zone database."""


class ServerOut(TypedDict):
    """What the server did not tell is null."""

    name: str
    version: str
    mode: str
    role: str
    uptime_s: int
    now: str
    clock_skew_ms: int
    """How far the clock of this API's machine is ahead of the server's."""
    replicas: list[ReplicaOut]
    persistence: PersistenceOut
    memory: MemoryOut
    clients: int
    most_clients: int | None
    deployment: DeploymentOut


@contract(gives=list[ShardOut])
async def shards(request: Request) -> Response:
    """Answer all shards: who fires for each, and how late it is."""
    backend = backend_of(request)
    store, now = backend.store, backend.clock.now_ms()
    queues = await known_queues(store, await read_processes(store, now))
    found = await read_shards(store, [standing.queue for standing in queues], now)
    return JsonResponse([shard_out(shard) for shard in found])


@contract(gives=list[SchedulerOut])
async def schedulers(request: Request) -> Response:
    """Answer the schedulers that count as alive, and which shards each one holds."""
    backend = backend_of(request)
    found = await read_schedulers(backend.store, backend.clock.now_ms())
    return JsonResponse([_scheduler_out(scheduler) for scheduler in found])


@contract(gives=list[WorkerOut])
async def workers(request: Request) -> Response:
    """Answer the workers: those that announce themselves, and other consumers of known queues that
    hold something, or asked for work within a minute."""
    backend = backend_of(request)
    store, now = backend.store, backend.clock.now_ms()
    processes = await read_processes(store, now)
    queues = [standing.queue for standing in await known_queues(store, processes)]
    found = await read_workers(store, processes, queues, now)
    return JsonResponse([worker_out(worker) for worker in found])


@contract(gives=ServerOut)
async def server(request: Request) -> Response:
    """Answer what the server says of itself, and what the deployment on it is."""
    backend = backend_of(request)
    store = backend.store
    processes = await read_processes(store, backend.clock.now_ms())
    deployment: DeploymentOut = {
        "shards": len(store.layout.shards),
        "layout_version": LAYOUT_VERSION,
        "jobs": await count_jobs(store),
        "versions": sorted({__version__, *(process.version for process in processes)}),
        "timezones": ZONE_DATABASE,
    }
    return JsonResponse(_server_out(await read_server(store), deployment))


def shard_out(shard: ShardStanding) -> ShardOut:
    return {
        "shard": shard.index,
        "tag": shard.tag,
        "holder": shard.holder,
        "fencing_token": shard.token,
        "lease_left_ms": shard.lease_left_ms,
        "oldest_due_at": _time(shard.oldest_due_at),
        "lag_ms": shard.lag_ms,
        "buckets": shard.buckets,
        "waiting": shard.waiting,
        "running": shard.running,
        "jobs": shard.jobs,
    }


def _scheduler_out(scheduler: SchedulerStanding) -> SchedulerOut:
    process = scheduler.process
    return {
        "scheduler": scheduler.name,
        "shards": scheduler.shards,
        **_process_out(process),
        "last_seen_at": _time(process.seen_at) if process else None,
    }


def worker_out(worker: WorkerStanding) -> WorkerOut:
    process = worker.process
    return {
        "worker": worker.name,
        "queues": [*worker.queues],
        "concurrency": process.concurrency if process else None,
        "running": worker.running,
        **_process_out(process),
        "last_seen_at": rfc_3339(worker.seen_at),
    }


def _process_out(process: Process | None) -> ProcessOut:
    return {
        "host": process.host if process else None,
        "pid": process.pid if process else None,
        "version": process.version if process else None,
        "timezones": process.zones if process else None,
        "clock_skew_ms": process.skew_ms if process else None,
        "started_at": rfc_3339(process.started_at) if process else None,
    }


def _server_out(facts: ServerFacts, deployment: DeploymentOut) -> ServerOut:
    return {
        "name": facts.name,
        "version": facts.version,
        "mode": facts.mode,
        "role": facts.role,
        "uptime_s": facts.uptime_s,
        "now": rfc_3339(facts.now),
        "clock_skew_ms": facts.skew_ms,
        "replicas": [_replica_out(replica) for replica in facts.replicas],
        "persistence": {
            "appendonly": facts.appendonly,
            "appendfsync": facts.appendfsync,
            "last_write_ok": facts.last_write_ok,
            "last_rewrite_ok": facts.last_rewrite_ok,
            "appendonly_bytes": facts.aof_bytes,
            "save": facts.save,
            "last_save_ok": facts.last_save_ok,
            "last_save_at": _time(facts.last_save_at),
        },
        "memory": {
            "used_bytes": facts.used_memory,
            "most_bytes": facts.max_memory,
            "policy": facts.policy,
        },
        "clients": facts.clients,
        "most_clients": facts.max_clients,
        "deployment": deployment,
    }


def _replica_out(replica: ReplicaFacts) -> ReplicaOut:
    return {
        "address": replica.address,
        "state": replica.state,
        "lag_s": replica.lag_s,
        "behind_bytes": replica.behind_bytes,
    }


def _time(at: int | None) -> str | None:
    return None if at is None else rfc_3339(at)
