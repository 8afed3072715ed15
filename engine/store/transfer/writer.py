"""Records of an export, one by one, as the commands that write them.

Executions wait in their streams as they did, under new entry ids. What a worker held is held by
`moved`, whose lease is long over: the reclaimers take it over at once, as its next delivery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from engine import codec
from engine.errors import BadInput
from engine.keys import GROUP, PREFIX, ZONES, Shard, bucket_of
from engine.model import JobState
from engine.names import split_execution_id
from engine.store import Store
from engine.store.transfer.kinds import DEPLOYMENT, Fate
from engine.store.transfer.reading import Record, split_place

BATCH_COMMANDS = 1_000
BATCH_BYTES = 1 << 20
HOLDER = "moved"
IDLE_MS = 86_400_000
LAST_ID = "18446744073709551615-18446744073709551614"
"""Behind it a group finds nothing: streams hand out when the deployment opens, and not before."""
OPEN_BACKFILL = (b"running", b"cancelling")


class Writer:
    """Turns records into commands, and sends them in batches."""

    def __init__(self, store: Store, now: int) -> None:
        self._store = store
        self._layout = store.layout
        self._now = now
        self._pipe = store.client.pipeline(transaction=False)
        self._bytes = 0
        self._streams: set[str] = set()
        self._entries: Counter[str] = Counter()
        self._ledger_ends: dict[int, tuple[int, int]] = {}

    @property
    def is_full(self) -> bool:
        return len(self._pipe) >= BATCH_COMMANDS or self._bytes >= BATCH_BYTES

    def add(self, record: Record, size: int) -> None:
        """Take a record. Raises BadInput for one of a kind that this release does not know."""
        write = WRITERS.get(record["kind"])
        if write is None:
            raise BadInput(f"records of kind {record['kind']!r} are not known to this release")
        write(self, record)
        self._bytes += size

    async def flush(self) -> None:
        replies = await self._pipe.execute(raise_on_error=False)
        self._bytes = 0
        for reply in replies:
            # A worker that was started on the target has made the group already.
            if isinstance(reply, Exception) and not str(reply).startswith("BUSYGROUP"):
                raise reply

    def hash(self, record: Record) -> None:
        key = _key_of(record, "hash")
        self._hset(key, record["fields"])
        if key == ZONES:
            for shard in self._layout.shards:
                self._pipe.sadd(shard.zones, *dict(_pairs(record["fields"])))

    def string(self, record: Record) -> None:
        self._pipe.set(_key_of(record, "string"), record["value"])

    def gates(self, record: Record) -> None:
        """Keep limited what was limited, with no permit left: the schedulers grant anew, counting
        what is live."""
        for name, value in _pairs(record["fields"]):
            what = name.partition(":")[0]
            if what == "full":
                self._pipe.hset(self._layout.shards[0].gates, name, value)
            elif what in ("slots", "tokens", "fair"):
                for shard in self._layout.shards:
                    self._pipe.hset(shard.gates, name, value if what == "fair" else 0)

    def job(self, record: Record) -> None:
        job_id, fields = record["id"], dict(_pairs(record["fields"]))
        shard, head = self._layout.shard_of(job_id), codec.load_head(_bytes(fields["head"]))
        pipe = self._pipe
        self._hset(shard.job(job_id), record["fields"])
        pipe.zadd(shard.jobs, {job_id: 0})
        pipe.hset(shard.plans, head.plan_id, record["plan"])
        if record["runs"]:
            pipe.rpush(shard.runs(job_id), *record["runs"])
        if head.state is JobState.ACTIVE and head.next_run_at is not None:
            self._due(shard, f"{head.plan_id}|{job_id}", head.next_run_at)
        if _bytes(fields.get("backfill_state", "")) in OPEN_BACKFILL:
            pipe.sadd(shard.backfills, job_id)
        self._list(shard, job_id, fields)
        for name, value in fields.items():
            if name.startswith("x:"):
                self._live(shard, f"{job_id}@{name[2:]}", _bytes(value))

    def _list(self, shard: Shard, job_id: str, fields: dict[str, Any]) -> None:
        """Put a job on the lists of its group and tags, as lua/lib/index.lua does."""
        pipe = self._pipe
        if group := fields.get("group"):
            pipe.zadd(shard.jobs_of_group(group), {job_id: 0})
            pipe.hincrby(shard.groups, group, len(_bytes(fields["payload"])))
            pipe.zadd(shard.group_names, {group: 0})
        for tag in fields.get("tags", "").split():
            pipe.zadd(shard.jobs_with_tag(tag), {job_id: 0})

    def _live(self, shard: Shard, execution_id: str, value: bytes) -> None:
        before, behind = split_place(value)
        where, _, rest = before.decode().partition(":")
        if where != "ready":
            self._due(shard, execution_id, int(rest.partition(":")[2]))
        for lane in filter(None, behind.partition(b";")[2].split(b",")):
            self._pipe.hincrby(shard.gates, f"live:{lane.decode()}", 1)

    def _due(self, shard: Shard, member: str, at: int) -> None:
        bucket = bucket_of(at)
        self._pipe.zadd(shard.due(bucket), {member: at})
        self._pipe.zadd(shard.buckets, {bucket: int(bucket)})

    def entry(self, record: Record) -> None:
        """Put an execution into its stream, behind those before it; say so in its job."""
        execution_id = dict(_pairs(record["fields"]))["execution_id"]
        shard, job_id, nominal_at = self._owner(execution_id)
        stream, pipe = record["stream"], self._pipe
        ready = shard.ready(stream)
        if ready not in self._streams:
            self._streams.add(ready)
            pipe.xgroup_create(ready, GROUP, id=LAST_ID, mkstream=True)
            pipe.xgroup_setid(ready, GROUP, LAST_ID)
            pipe.hset(shard.frozen, f"group:{stream}", "0-0")
        self._entries[ready] += 1
        entry = f"{self._now}-{self._entries[ready]}"
        pipe.xadd(ready, dict(_pairs(record["fields"])), id=entry)
        where = _bytes(record["before"]) + entry.encode() + _bytes(record["behind"])
        pipe.hset(shard.job(job_id), f"x:{nominal_at}", where)
        if record["deliveries"]:
            # All that is held comes before what waits: the group stands at the last one of these.
            pipe.hset(shard.frozen, f"group:{stream}", entry)
            held = {"idle": IDLE_MS, "retrycount": record["deliveries"], "force": True}
            pipe.xclaim(ready, GROUP, HOLDER, 0, [entry], justid=True, **held)

    def letter(self, record: Record) -> None:
        shard, _, _ = self._owner(record["execution"])
        self._hset(shard.letter(record["execution"]), record["fields"])
        self._pipe.zadd(shard.dead, {record["execution"]: record["died_at"]})

    def inputs(self, record: Record) -> None:
        shard = self._layout.shard_of(record["id"])
        self._hset(shard.inputs(record["id"]), record["fields"])

    def dependents(self, record: Record) -> None:
        shard = self._layout.shard_of(record["id"])
        self._pipe.zadd(shard.dependents(record["id"]), dict.fromkeys(record["jobs"], 0))

    def arrivals(self, record: Record) -> None:
        job_id, _, time = record["awaited"].partition("@")
        shard = self._layout.shard_of(job_id)
        self._hset(shard.arrivals(job_id, time), record["fields"])
        self._pipe.zadd(shard.awaiting, {record["awaited"]: record["heard_at"]})

    def effects(self, record: Record) -> None:
        shard, _, _ = self._owner(record["execution"])
        key = shard.effects(record["execution"])
        self._hset(key, record["fields"])
        if record["ttl_ms"] > 0:
            self._pipe.pexpire(key, record["ttl_ms"])

    def outbox(self, record: Record) -> None:
        fields = dict(_pairs(record["fields"]))
        self._pipe.xadd(self._layout.shard_of(fields["job"]).outbox, fields)

    def ledger(self, record: Record) -> None:
        """Add an entry under its own id, which is its time; where shards are joined, and two have
        the same one, the later one comes right behind."""
        index = record["shard"] % len(self._layout.shards)
        ms, _, number = record["id"].partition("-")
        at = (int(ms), int(number))
        if index in self._ledger_ends and at <= self._ledger_ends[index]:
            last_ms, last_number = self._ledger_ends[index]
            at = (last_ms, last_number + 1)
        self._ledger_ends[index] = at
        ledger = self._layout.shards[index].ledger
        self._pipe.xadd(ledger, dict(_pairs(record["fields"])), id=f"{at[0]}-{at[1]}")

    def _owner(self, execution_id: str) -> tuple[Shard, str, int]:
        job_id, nominal_at = split_execution_id(execution_id)
        return self._layout.shard_of(job_id), job_id, nominal_at

    def _hset(self, key: str, flat: list[Any]) -> None:
        self._pipe.execute_command("HSET", key, *flat)


WRITERS: dict[str, Callable[[Writer, Record], None]] = {
    "hash": Writer.hash,
    "string": Writer.string,
    "gates": Writer.gates,
    "job": Writer.job,
    "entry": Writer.entry,
    "letter": Writer.letter,
    "inputs": Writer.inputs,
    "dependents": Writer.dependents,
    "arrivals": Writer.arrivals,
    "effects": Writer.effects,
    "outbox": Writer.outbox,
    "ledger": Writer.ledger,
}
"""Kind of record → who writes it."""


def _key_of(record: Record, how: str) -> str:
    """Return the key of a hash or string of the deployment. A file names no other key."""
    kind = DEPLOYMENT.get(record["name"])
    if kind is None or kind.fate is not Fate.MOVED or kind.how != how:
        raise BadInput(f"{record['name']!r} is no {how} of a deployment that this release knows")
    return f"{PREFIX}:{record['name']}"


def _pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
