"""A shard's whole keyspace as a value, what changed between two of them, and what holds in each.

The invariants, in the order of `faults`:

1.  A job is in the due index exactly while it is active, once, under its `next_run_at`: in the
    bucket of that minute, in its stream's bucket where it waits for room, or in that of a lane of
    its queue or of a host, for its priority, where it waits for a permit.
2.  A live execution is in the index in the same way (`due:`), in the minute in which it lapses
    (`async:`), or in its job's ready stream (`ready:`); `live` counts them, `backfill_live` those
    that a backfill started.
3.  Nothing else is in the index, and nothing else is in a ready stream, except what a consumer
    holds of a job that was deleted meanwhile.
4.  `buckets` lists the buckets there are, by minute; `due:@` says of each member of a lane's
    bucket where it is, and of no other.
5.  `jobs` lists the jobs there are; each one's plan is stored; no history is without its job.
6.  `backfills` lists the jobs whose backfill is not at its end.
7.  Times that wait (`queued`), a group, dependents and upstream jobs stand in a job with field
    `rules`: without it scripts look for none of them.
8.  `live:<lane>` in the gates counts the live executions that came through the lane. (A limit that
    is lifted and set again while some of them are live begins to count anew: a test that does so
    ends them.)
9.  `dead` lists the letters there are, and no execution is live that a letter says is dead.
10. `awaiting` lists the arrivals there are, and these count what they hold.
11. What upstream jobs gave (`inputs:`) is kept for executions alone that are live, wait, or have a
    letter.
12. A job says that others depend on it (`dependents`) exactly while some do.
13. `jobs:group:…` and `jobs:tag:…` list the jobs that say they are of the group or have the tag;
    `jobs:groups` adds up the bytes of each group's payloads, and has no other group;
    `jobs:group_names` lists the same groups.
14. Each secret that signs webhooks is marked as its owner's, and nothing else is marked
    (`wc:secrets`, which belongs to no shard).
15. A shard that is frozen says in which phase of a move it is.

Of no shard: uses are noted of keys alone that are there (`wc:keys`).

What side effects gave (`effects:`) may stay behind its job.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from redis.exceptions import ResponseError

from engine.codec import load_head
from engine.keys import API_KEYS, API_KEYS_USED, GROUP, SECRETS, Shard
from engine.model import JobState
from engine.store import Store

RULED = {"queued", "group", "dependents", "upstreams"}
OPEN_BACKFILL = ("running", "cancelling")

Keyspace = dict[str, Any]
"""Key, without the shard's prefix, to its value, in text: a dict for hashes, sets, zsets (member →
score) and ready streams (entry id → fields); a list, oldest first, for histories and the ledger's
events. `pending:<queue>` is no key: it shows what the consumers of `ready:<queue>` hold."""


async def read_shard(store: Store, shard: Shard) -> Keyspace:
    """Return all that a shard holds."""
    prefix = shard.job("").removesuffix("job:")
    space: Keyspace = {}
    # `{` and `}` mean nothing to MATCH, and a tag has only letters and digits.
    for key in sorted([key.decode() async for key in store.client.scan_iter(f"{prefix}*")]):
        name = key.removeprefix(prefix)
        space[name] = await _read_value(store.client, key, name)
        if name.startswith("ready:"):
            space[name.replace("ready:", "pending:")] = await _read_pending(store.client, key)
    return {name: value for name, value in space.items() if value}


async def _read_value(client: Any, key: str, name: str) -> Any:
    match (await client.type(key)).decode():
        case "string":
            return (await client.get(key)).decode()
        case "hash":
            return _spelled_out(_text(await client.hgetall(key)))
        case "zset":
            found = await client.zrange(key, 0, -1, withscores=True)
            return {member.decode(): score for member, score in found}
        case "set":
            return {member.decode(): True for member in await client.smembers(key)}
        case "list":
            return [json.loads(record) for record in reversed(await client.lrange(key, 0, -1))]
        case "stream":
            entries = await client.xrange(key)
            if name == "ledger":
                lines = [line for _, fields in entries for line in fields[b"events"].splitlines()]
                return [json.loads(line) for line in lines]
            return {entry.decode(): _text(fields) for entry, fields in entries}
    raise AssertionError(f"{key} has an unknown type")


async def _read_pending(client: Any, key: str) -> dict[str, tuple[str, int]]:
    """Return (consumer, delivery count) by entry id."""
    try:
        found = await client.xpending_range(key, GROUP, "-", "+", 1_000)
    except ResponseError:  # nobody has made the group
        return {}
    return {
        row["message_id"].decode(): (row["consumer"].decode(), row["times_delivered"])
        for row in found
    }


def _spelled_out(fields: dict[str, str]) -> dict[str, str]:
    """Return a job's fields with its head as a field a word; other hashes as they are."""
    if "head" not in fields:
        return fields
    head = load_head(fields["head"].encode())
    words = {
        "state": str(head.state),
        "plan": head.plan_id,
        "next_run_at": "" if head.next_run_at is None else str(head.next_run_at),
        "live": str(head.live),
        "queue": head.stream,
        "overlap": head.overlap,
        "retry": head.retry.decode(),
        **({"rules": "1"} if head.has_rules else {}),
    }
    return words | {name: value for name, value in fields.items() if name != "head"}


def _text(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {n.decode(): value.decode(errors="backslashreplace") for n, value in fields.items()}


def changes(before: Keyspace, after: Keyspace) -> Keyspace:
    """Return by key what is new: changed fields (None where gone), or the lines that were added."""
    found: Keyspace = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old or new, dict):
            old, new = old or {}, new or {}
            names = [name for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
            found[key] = {name: new.get(name) for name in names}
        elif isinstance(new, list) and new[: len(old or [])] == (old or []):
            found[key] = new[len(old or []) :]
        else:
            found[key] = new
    return found


async def check_invariants(store: Store) -> None:
    """Assert that the invariants hold in every shard."""
    for shard in store.layout.shards:
        space = await read_shard(store, shard)
        assert list(faults(space)) == [], space
    known, used = await store.client.hkeys(API_KEYS), await store.client.hkeys(API_KEYS_USED)
    assert {*used} <= {*known}, "uses are noted of keys that are not there"
    secrets = _text(await store.client.hgetall(SECRETS))
    assert list(faults_of_secrets(secrets)) == [], secrets


def faults_of_secrets(fields: dict[str, str]) -> Iterator[str]:
    """Yield where the secrets that sign webhooks and the marks of whose they are do not agree."""
    marked = {name: value for name, value in fields.items() if name.startswith("mark:")}
    held = {
        f"mark:{mark}": owner
        for owner in fields.keys() - marked.keys()
        for _, _, _, _, mark in json.loads(fields[owner])[1:]
    }
    if held != marked:
        yield f"marked are {marked}, and held {held}"


def faults(space: Keyspace) -> Iterator[str]:
    """Yield each way in which a shard breaks an invariant."""
    jobs = _with_prefix(space, "job:")
    index = _with_prefix(space, "due:")
    lanes = index.pop("@", {})
    places: dict[str, list[tuple[str, float]]] = {}
    for bucket, members in index.items():
        for member, score in members.items():
            places.setdefault(member, []).append((bucket, score))
    entries: set[str] = set()
    for job_id, job in jobs.items():
        yield from _faults_of_times(job_id, job, places)
        yield from _faults_of_executions(job_id, job, places, space, entries)
        if job["plan"] not in space.get("plans", {}):
            yield f"{job_id} has a plan that is not stored"
        if "rules" not in job:
            for name in RULED & job.keys():
                yield f"{job_id} has {name} and no field `rules`: nothing looks for it"
    for member in places:
        yield f"{member} is in the index and belongs to nothing"
    for queue, stream in _with_prefix(space, "ready:").items():
        for entry in stream.keys() - entries - space.get(f"pending:{queue}", {}).keys():
            yield f"{entry} waits in {queue} and belongs to nothing"
    scores = {bucket: float("inf" if bucket[0] == "@" else bucket) for bucket in index}
    if space.get("buckets", {}) != scores:
        yield f"buckets are {space.get('buckets')} and should be {scores}"
    held = {member: bucket for bucket in index if "/" in bucket for member in index[bucket]}
    if lanes != held:
        yield f"lanes are {lanes} and should be {held}"
    if space.get("jobs", {}) != dict.fromkeys(jobs, 0.0):
        yield f"jobs are {space.get('jobs')} and should be {list(jobs)}"
    filling = {i for i, job in jobs.items() if job.get("backfill_state") in OPEN_BACKFILL}
    if space.get("backfills", {}).keys() != filling:
        yield f"backfills are {space.get('backfills')} and should be {sorted(filling)}"
    for job_id in _with_prefix(space, "runs:").keys() - jobs.keys():
        yield f"{job_id} has a history and is no job"
    yield from _faults_of_gates(jobs, space.get("gates", {}))
    yield from _faults_of_letters(jobs, space)
    yield from _faults_of_dependencies(jobs, space)
    yield from _faults_of_lists(jobs, space)
    if "frozen" in space and "phase" not in space["frozen"]:
        yield f"the shard is frozen in no phase: {space['frozen']}"


def _faults_of_lists(jobs: Keyspace, space: Keyspace) -> Iterator[str]:
    """Yield where the lists of jobs by group and by tag are not what the jobs say."""
    wanted: Keyspace = {}
    for job_id, job in jobs.items():
        names = [f"group:{job['group']}"] if "group" in job else []
        for name in names + [f"tag:{tag}" for tag in job.get("tags", "").split()]:
            wanted.setdefault(name, {})[job_id] = 0.0
        if names:
            sums = wanted.setdefault("groups", Counter())
            sums[job["group"]] += len(job.get("payload", "").encode())
            wanted.setdefault("group_names", {})[job["group"]] = 0.0
    found = _with_prefix(space, "jobs:")
    if "groups" in found:
        found["groups"] = {group: int(size) for group, size in found["groups"].items()}
    if found != wanted:
        yield f"lists of jobs are {found} and should be {wanted}"


def _with_prefix(space: Keyspace, prefix: str) -> Keyspace:
    return {k.removeprefix(prefix): value for k, value in space.items() if k.startswith(prefix)}


def _faults_of_times(
    job_id: str, job: dict[str, str], places: dict[str, list[tuple[str, float]]]
) -> Iterator[str]:
    """Yield what is wrong with a job's own place in the index, and take it out of `places`."""
    state, next_run_at = JobState(job["state"]), job["next_run_at"]
    waits_for_others = "upstreams" in job and "gate_ms" not in job and job.get("runs_left") != "0"
    has_time = next_run_at != "" or waits_for_others
    if (state is JobState.COMPLETED) is has_time:
        yield f"{job_id} is {state} with next_run_at {next_run_at!r}"
    if state is JobState.ACTIVE and next_run_at != "":
        member = f"{job['plan']}|{job_id}"
        yield from _faults_of_place(member, next_run_at, job["queue"], places)


def _faults_of_executions(
    job_id: str,
    job: dict[str, str],
    places: dict[str, list[tuple[str, float]]],
    space: Keyspace,
    entries: set[str],
) -> Iterator[str]:
    """Yield what is wrong with live executions; take them out of `places`, into `entries`."""
    live = {name[2:]: value for name, value in job.items() if name.startswith("x:")}
    marked = {name[2:] for name in job if name.startswith("b:")}
    own, filled = (int(job.get(name, 0)) for name in ("live", "backfill_live"))
    if (own, filled) != (len(live.keys() - marked), len(marked)) or marked - live.keys():
        yield (
            f"{job_id} counts {own} and {filled} live executions and has {sorted(live)}, of which a"
            f" backfill started {sorted(marked)}"
        )
    for nominal_at, value in live.items():
        where, attempt, at = value.partition(";")[0].split(":")[:3]
        member = f"{job_id}@{nominal_at}"
        if where != "ready":
            queue = job["queue"] if where == "due" else None
            yield from _faults_of_place(member, at, queue, places)
            continue
        entries.add(at)
        entry = space.get(f"ready:{job['queue']}", {}).get(at)
        if not entry or (entry["execution_id"], entry["attempt"]) != (member, attempt):
            yield f"{member} says {value}, and its entry is {entry}"


def _faults_of_place(
    member: str, due_at: str, stream: str | None, places: dict[str, list[tuple[str, float]]]
) -> Iterator[str]:
    """Yield whether a member is not exactly once where it belongs, and take it out of `places`.
    One that waits for no stream's room and permits belongs into its minute."""
    found = places.pop(member, [])
    wanted = [str(int(due_at) // 60_000)]
    if stream is not None:
        queue, colon, priority = stream.partition(":")
        suffix = colon + priority
        wanted += [f"@{stream}", f"@q/{queue}{suffix}", f"@g/{queue}/…{suffix}", f"@h/…{suffix}"]
    at = [(_without_name(bucket), score) for bucket, score in found]
    if len(at) != 1 or at[0][0] not in wanted or at[0][1] != float(due_at):
        yield f"{member} is at {found} and should be at {due_at} in one of {wanted}"


def _without_name(bucket: str) -> str:
    """Return a lane's bucket without the name of the host or group, which an edit may change while
    something waits."""
    return re.sub(r"^(@h/|@g/[^/]*/)(?:.*?)(:high|:low)?$", r"\1…\2", bucket)


def _faults_of_gates(jobs: Keyspace, gates: dict[str, str]) -> Iterator[str]:
    """Yield lanes whose count is not that of the live executions which came through them."""
    through = Counter(
        lane
        for job in jobs.values()
        for name, value in job.items()
        if name.startswith("x:")
        for lane in value.partition(";")[2].split(",")
    )
    counted = ("slots:", "tokens:", "live:")
    limited = {name.partition(":")[2] for name in gates if name.startswith(counted)}
    for lane in sorted(limited):
        count = int(gates.get(f"live:{lane}", 0))
        if count != through[lane]:
            yield f"{lane} counts {count} live executions, and {through[lane]} came through it"


def _faults_of_letters(jobs: Keyspace, space: Keyspace) -> Iterator[str]:
    """Yield where letters, the list of them, and live executions do not agree."""
    letters = _with_prefix(space, "letter:")
    if space.get("dead", {}).keys() != letters.keys():
        yield f"dead are {sorted(space.get('dead', {}))}, and letters {sorted(letters)}"
    for execution_id, letter in letters.items():
        job_id, _, nominal_at = execution_id.partition("@")
        job = jobs.get(job_id, {})
        is_of_job = job.get("definition", "").startswith(f"[{letter['born']},")
        if is_of_job and f"x:{nominal_at}" in job:
            yield f"{execution_id} is live and has a letter"


def _faults_of_dependencies(jobs: Keyspace, space: Keyspace) -> Iterator[str]:
    """Yield where what is noted of upstream jobs and dependents is not what it should be."""
    arrivals = _with_prefix(space, "arrivals:")
    if space.get("awaiting", {}).keys() != arrivals.keys():
        yield f"awaiting are {sorted(space.get('awaiting', {}))}, and arrivals {sorted(arrivals)}"
    for awaited, fields in arrivals.items():
        heard = [value for name, value in fields.items() if name[0] != "@"]
        signs = Counter(value[0] for value in heard)
        open_ones = sum(value[1:].partition(" ")[0] != "succeeded" for value in heard)
        wanted = {"@met": signs["+"], "@missed": signs["-"], "@open": open_ones}
        counted = {name: int(fields.get(name, count)) for name, count in wanted.items()}
        if counted != wanted:
            yield f"{awaited} counts {counted}, and has heard {fields}"
    for job_id, inputs in _with_prefix(space, "inputs:").items():
        job = jobs.get(job_id, {})
        known = {name[2:] for name in job if name.startswith("x:")} | {
            *job.get("queued", "").split()
        }
        for time in inputs.keys() - known:
            if f"letter:{job_id}@{time}" not in space:
                yield f"inputs of {job_id}@{time} are kept for nothing"
    for job_id, job in jobs.items():
        if ("dependents" in job) is not (f"dependents:{job_id}" in space):
            yield f"{job_id} has dependents {job.get('dependents')}, and the list says otherwise"
