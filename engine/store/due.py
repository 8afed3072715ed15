"""The due index: look at what is due, and commit what was proposed about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from engine import codec
from engine.errors import NotSupported
from engine.keys import Shard, bucket_of
from engine.plan import Plan, Proposal, wait_from
from engine.scripts import Call
from engine.store import Store

Member = tuple[bytes, int]
"""A member of the due index, and its due time."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Due members of one bucket, oldest first."""

    bucket: str
    members: list[Member]


@dataclass(frozen=True, slots=True)
class Peek:
    """What is due in a shard. `earliest_at` is the oldest time of the index, due or not; None if it
    is empty."""

    earliest_at: int | None
    slices: list[Slice]


@dataclass(frozen=True, slots=True)
class Glance:
    """What is at hand in a shard at once. `earliest_at` is the oldest time of this minute's bucket,
    due or not; `is_held` says whether anything waits for room or a permit."""

    earliest_at: int | None
    is_held: bool


@dataclass(slots=True)
class Group:
    """Due jobs that share plan and due time, and what is proposed for them.

    The proposal speaks of nominal times; the jobs are due `offset_ms` after them.
    """

    due_at: int
    offset_ms: int
    proposal: Proposal
    members: list[bytes]


@dataclass(frozen=True, slots=True)
class Fired:
    """How many members of a commit went which way."""

    fired: int = 0
    overlap: int = 0
    held: int = 0
    stale: int = 0

    def __add__(self, other: Fired) -> Fired:
        return Fired(
            self.fired + other.fired,
            self.overlap + other.overlap,
            self.held + other.held,
            self.stale + other.stale,
        )


async def peek_due(
    store: Store, shards: Sequence[Shard], now: int, limit: int
) -> list[Peek | Exception]:
    """Return what is due in each shard, `limit` members a bucket at the most; an exception where a
    look failed."""
    replies = await store.scripts.run_many(
        [
            (
                "peek_due",
                [shard.buckets, shard.gates],
                [shard.due_prefix, shard.ready_prefix, now, limit, store.max_ready],
            )
            for shard in shards
        ]
    )
    return [reply if isinstance(reply, Exception) else _read_peek(reply) for reply in replies]


def _read_peek(reply: list[bytes | list[bytes]]) -> Peek:
    earliest, *rest = reply
    slices = []
    for bucket, flat in zip(rest[::2], rest[1::2], strict=True):
        assert isinstance(bucket, bytes)
        assert isinstance(flat, list)
        slices.append(_read_slice(bucket, flat))
    assert isinstance(earliest, bytes)
    return Peek(int(float(earliest)) if earliest else None, slices)


def _read_slice(bucket: bytes, flat: list[bytes]) -> Slice:
    # A score is a float in text, and 16 digits are exact in one.
    members = [(m, int(float(s))) for m, s in zip(flat[::2], flat[1::2], strict=True)]
    return Slice(bucket.decode(), members)


async def glance_due(store: Store, shards: Sequence[Shard], now: int) -> list[Glance]:
    """Return what is at hand in each shard: a small part of the work of `peek_due`, for shards in
    which that has just found nothing."""
    # One call for all: twenty times a second, a call costs more than what it looks at.
    reply = await store.scripts.run(
        "glance_due",
        [shard.buckets for shard in shards],
        [bucket_of(now), *(shard.due_prefix for shard in shards)],
    )
    return [
        Glance(int(float(first)) if first else None, held == 1)
        for first, held in zip(reply[::2], reply[1::2], strict=True)
    ]


async def peek_starts(
    store: Store, shards: Sequence[Shard], start_at: int, limit: int
) -> list[Slice | Exception | None]:
    """Return in each shard what waits for the start of the deployment at `start_at`, `limit`
    members at the most; None where it is carried out, an exception where a look failed."""
    first, until = bucket_of(wait_from(0)), wait_from(start_at)
    replies = await store.scripts.run_many(
        [
            (
                "peek_starts",
                [shard.buckets],
                [shard.due_prefix, first, until, limit],
            )
            for shard in shards
        ]
    )
    return [
        reply if isinstance(reply, Exception) else _read_slice(*reply) if reply else None
        for reply in replies
    ]


async def read_plans(store: Store, shard: Shard, plan_ids: set[str]) -> None:
    """Read into `store.plans` those plans that are not there yet.

    Ids that the shard does not know stay unknown, and so do plans of a newer version.
    """
    # Not `plan_ids - store.plans.keys()`: that goes through all the plans there are.
    missing = sorted(plan_id for plan_id in plan_ids if plan_id not in store.plans)
    if missing:
        for plan_id, data in zip(
            missing, await store.client.hmget(shard.plans, missing), strict=True
        ):
            if data is not None:
                with suppress(NotSupported):
                    store.plans[plan_id] = Plan.from_canonical(data)


async def fire_due(
    store: Store, shard: Shard, token: str, holder: str, bucket: str, groups: Sequence[Group]
) -> Fired:
    """Commit what was proposed for due jobs of one bucket. Raises Fenced if the lease has gone to
    another."""
    return await _fire_one(store, firing(store, shard, token, holder, bucket, groups))


async def fire_many(store: Store, calls: Sequence[Call]) -> list[Fired | Exception]:
    """Make calls of `firing` and `offering` in one round trip; return an exception where one was
    refused."""
    replies = await store.scripts.run_many(calls)
    return [
        reply if isinstance(reply, Exception) else _FIRED[name](reply)
        for reply, (name, _, _) in zip(replies, calls, strict=True)
    ]


async def _fire_one(store: Store, call: Call) -> Fired:
    [fired] = await fire_many(store, [call])
    if isinstance(fired, Exception):
        raise fired
    return fired


def firing(
    store: Store, shard: Shard, token: str, holder: str, bucket: str, groups: Sequence[Group]
) -> Call:
    """Return the call that commits what was proposed for due jobs of one bucket."""
    config = store.config
    args: list[str | bytes | int] = [
        token,
        holder,
        bucket,
        shard.job_prefix,
        shard.due_prefix,
        shard.ready_prefix,
        shard.runs_prefix,
        shard.arrivals_prefix,
        shard.inputs_prefix,
        store.max_ready,
        config.history_limit,
        config.ledger_limit,
    ]
    for group in groups:
        proposal = group.proposal
        next_at = None if proposal.next_at is None else proposal.next_at + group.offset_ms
        args += [
            group.due_at,
            "" if proposal.nominal_at is None else proposal.nominal_at,
            "" if next_at is None else next_at,
            "" if next_at is None else bucket_of(next_at),
            _skip_records(proposal),
            len(group.members),
            *group.members,
        ]
    keys = [
        shard.fence,
        shard.buckets,
        shard.due(bucket),
        shard.awaiting,
        shard.gates,
        shard.outbox,
        shard.ledger,
    ]
    return "fire_due", keys, args


def _skip_records(proposal: Proposal) -> bytes:
    """Return the records of what a proposal does not fire, a line each."""
    skipped = (proposal.skipped, proposal.in_gap)
    return b"\n".join(codec.dump_skipped(part) for part in skipped if part is not None)


async def fire_attempts(
    store: Store, shard: Shard, token: str, holder: str, bucket: str, members: Sequence[Member]
) -> Fired:
    """Offer attempts whose time has come. Raises Fenced if the lease has gone to another."""
    return await _fire_one(store, offering(store, shard, token, holder, bucket, members))


def offering(
    store: Store, shard: Shard, token: str, holder: str, bucket: str, members: Sequence[Member]
) -> Call:
    """Return the call that offers attempts whose time has come."""
    args: list[str | bytes | int] = [
        token,
        holder,
        bucket,
        shard.job_prefix,
        shard.due_prefix,
        shard.ready_prefix,
        shard.inputs_prefix,
        store.max_ready,
        store.config.ledger_limit,
    ]
    for member, due_at in members:
        args += [due_at, member]
    keys = [shard.fence, shard.buckets, shard.due(bucket), shard.gates, shard.ledger]
    return "fire_attempts", keys, args


_FIRED: dict[str, Callable[[list[int]], Fired]] = {
    "fire_due": lambda counts: Fired(*counts),
    "fire_attempts": lambda counts: Fired(fired=counts[0], held=counts[1], stale=counts[2]),
}
"""What the reply of a script says."""
