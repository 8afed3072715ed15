"""What a shard's records say must be in its index, its ready streams and its lists: is it there?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine import codec
from engine.execution import LiveExecution
from engine.keys import Shard, bucket_of
from engine.model import JobState
from engine.store import Store


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong. `state` is what it was judged by: the same fault has the same."""

    what: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """Something that a record says must be in the index at `due_at`: in the bucket of that minute,
    or, what waits for room or a permit, in another one."""

    job_id: str
    member: str
    due_at: int
    stream: str

    def fault(self, kind: str) -> Fault:
        return Fault(self.member.rpartition("|")[2], kind, str(self.due_at))


async def faults_of_jobs(store: Store, shard: Shard, job_ids: Sequence[str]) -> set[Fault]:
    """Return what seems wrong with jobs and their live executions. What moves meanwhile may seem
    wrong for a moment: look twice."""
    faults: set[Fault] = set()
    claims: list[_Claim] = []
    offered: list[tuple[_Claim, LiveExecution]] = []
    pipe = store.client.pipeline(transaction=False)
    for job_id in job_ids:
        key = shard.job(job_id)
        pipe.hmget(key, "head", "group", "tags", "backfill_live")
        pipe.hscan(key, 0, match="x:*", count=1_000)
    replies = iter(await pipe.execute())
    gone: list[str] = []
    lists: list[tuple[str, str, str]] = []
    for job_id in job_ids:
        fields, (cursor, live_fields) = next(replies), next(replies)
        text, group, tags, backfill_live = fields
        if text is None:
            gone.append(job_id)
            continue
        head, live = codec.load_head(text), codec.load_live(live_fields)
        counted = head.live + int(backfill_live or 0)
        if cursor == 0 and counted != len(live):
            said = f"{counted} {len(live)}"
            faults.add(Fault(job_id, "counts other live executions than it has", said))
        if head.state is JobState.ACTIVE and head.next_run_at is not None:
            member = f"{head.plan_id}|{job_id}"
            claims.append(_Claim(job_id, member, head.next_run_at, head.stream))
        for one in live:
            claim = _Claim(job_id, f"{job_id}@{one.nominal_at}", one.due_at or 0, head.stream)
            if one.due_at is None:
                offered.append((claim, one))
            else:
                claims.append(claim)
        if group:
            lists.append((job_id, "group", shard.jobs_of_group(group.decode())))
        named = (tags or b"").decode().split()
        lists += [(job_id, "tag", shard.jobs_with_tag(tag)) for tag in named]
    faults |= await _still_listed(store, shard, gone)
    faults |= await _missing_from_index(store, shard, claims)
    faults |= await _missing_from_streams(store, shard, offered)
    return faults | await _missing_from_lists(store, lists)


async def _still_listed(store: Store, shard: Shard, gone: Sequence[str]) -> set[Fault]:
    scores = await scores_of(store, [(shard.jobs, job_id) for job_id in gone])
    return {
        Fault(job_id, "is listed and not stored", "")
        for (_, job_id), score in scores.items()
        if score is not None
    }


async def _missing_from_index(store: Store, shard: Shard, claims: Sequence[_Claim]) -> set[Fault]:
    minutes = {claim: bucket_of(claim.due_at) for claim in claims}
    places = [(shard.due(minute), claim.member) for claim, minute in minutes.items()]
    due = await scores_of(store, places)
    found = [claim for claim in claims if due[shard.due(minutes[claim]), claim.member] is not None]
    listed = await scores_of(store, [(shard.buckets, minutes[claim]) for claim in found])
    faults = set()
    for claim in found:
        minute = minutes[claim]
        if due[shard.due(minute), claim.member] != claim.due_at:
            faults.add(claim.fault("is in the index at another time than it says"))
        elif listed[shard.buckets, minute] is None:
            faults.add(claim.fault("is in a bucket that is not listed: it will not fire"))
    return faults | await _missing_elsewhere(store, shard, [c for c in claims if c not in found])


async def _missing_elsewhere(store: Store, shard: Shard, claims: Sequence[_Claim]) -> set[Fault]:
    """Return what is not in its minute, and waits neither for room nor for a permit."""
    if not claims:
        return set()
    lanes = await store.client.hmget(shard.waiting, [claim.member for claim in claims])
    places = {
        claim: (shard.due(lane.decode() if lane else f"@{claim.stream}"), claim.member)
        for claim, lane in zip(claims, lanes, strict=True)
    }
    scores = await scores_of(store, places.values())
    return {
        claim.fault("is due and not in the index: it will not fire")
        for claim, place in places.items()
        if scores[place] != claim.due_at
    }


async def _missing_from_streams(
    store: Store, shard: Shard, offered: Sequence[tuple[_Claim, LiveExecution]]
) -> set[Fault]:
    pipe = store.client.pipeline(transaction=False)
    for claim, one in offered:
        pipe.xrange(shard.ready(claim.stream), one.entry_id, one.entry_id, count=1)
    replies = await pipe.execute() if offered else []
    return {
        Fault(claim.member, "is not in its ready stream: nobody will run it", str(one.entry_id))
        for (claim, one), entries in zip(offered, replies, strict=True)
        if not entries or entries[0][1][b"execution_id"].decode() != claim.member
    }


async def _missing_from_lists(store: Store, lists: Sequence[tuple[str, str, str]]) -> set[Fault]:
    """Return what is not in a list: of (job, kind of list, key)."""
    scores = await scores_of(store, [(key, job_id) for job_id, _, key in lists])
    return {
        Fault(job_id, f"is not in the list of its {kind}", key)
        for job_id, kind, key in lists
        if scores[key, job_id] is None
    }


async def scores_of(
    store: Store, places: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int | None]:
    """Return the score of each (key of a zset, member), None where it is not in it."""
    by_key: dict[str, list[str]] = {}
    for key, member in places:
        by_key.setdefault(key, []).append(member)
    pipe = store.client.pipeline(transaction=False)
    for key, members in by_key.items():
        pipe.zmscore(key, members)
    return {
        (key, member): None if score is None else int(score)
        for (key, members), scores in zip(
            by_key.items(), await pipe.execute() if by_key else [], strict=True
        )
        for member, score in zip(members, scores, strict=True)
    }
