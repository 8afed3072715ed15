"""Changes to a job: replace its definition, pause it, resume it."""

from __future__ import annotations

from dataclasses import replace

from engine import codec
from engine.errors import WrongState
from engine.execution import SkipReason
from engine.model import JobState
from engine.plan import CatchUp, MisfirePolicy, Skipped, catch_up, catch_up_starts
from engine.registration import Registration
from engine.scripts import Call
from engine.store import Store
from engine.store.jobs import StoredJob, get_job
from engine.store.limits import make_fair


async def replace_job(store: Store, stored: StoredJob, registration: Registration, now: int) -> int:
    """Give the job that was read as `stored` another definition; return its new version.

    Its history and live executions stay. While schedule and plan stay the same, so do its times;
    else they count from now, and what was due or held back by a pause is recorded as skipped.
    Raises NotFound, Conflict if the job has changed since it was read, WrongState for another queue
    while executions are live.
    """
    old, new = stored.job, registration.job
    next_at, skipped = new.next_run_at, b""
    same_times = (old.plan_id, old.schedule_expr) == (new.plan_id, new.schedule_expr)
    if same_times and old.next_run_at is not None:
        new = replace(new, anchor_at=old.anchor_at)
        next_at = old.next_run_at
    elif stored.next_nominal_at is not None:
        missed = _missed(store, stored, stored.next_nominal_at, now, "skip")
        skipped = _dump_skipped(missed.skipped, SkipReason.EDITED)
    new = replace(new, created_at=old.created_at)
    if new.group is not None:
        await make_fair(store, new.queue)
    waits = old.depends is not None and old.state is not JobState.COMPLETED
    if (old.next_run_at is not None or waits) and old.rules.max_runs == new.rules.max_runs:
        new = replace(new, runs_left=old.runs_left)
    shard = store.layout.shard_of(old.id)
    version: int = await store.scripts.run(
        "replace_job",
        [
            shard.job(old.id),
            shard.jobs,
            shard.plans,
            shard.runs(old.id),
            shard.buckets,
            shard.ledger,
        ],
        [
            old.id,
            f"{old.version}/{'' if old.next_run_at is None else old.next_run_at}",
            new.plan_id,
            registration.plan.canonical,
            "" if next_at is None else next_at,
            skipped,
            shard.due_prefix,
            store.config.history_limit,
            store.config.ledger_limit,
            *codec.dump_defined(new),
        ],
    )
    return version


async def pause_job(
    store: Store, job_id: str, now: int, *, by: str = "api", note: str = ""
) -> None:
    """Keep a job from firing until it is resumed; `by` and `note` say who wants that, and why.

    Raises NotFound, or WrongState unless it is active.
    """
    await store.scripts.run(*pause_call(store, job_id, codec.dump_note(by, now, note)))


def pause_call(store: Store, job_id: str, reason: bytes) -> Call:
    """Return the call that pauses a job, with its note as stored."""
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.buckets, shard.ledger]
    return "pause_job", keys, [job_id, reason, shard.due_prefix, store.config.ledger_limit]


async def preview_resume(
    store: Store, job_id: str, now: int, policy: MisfirePolicy | None = None
) -> CatchUp:
    """Return what resuming a job now would run and skip. Raises as `resume_job` does."""
    return what_to_catch_up(store, await get_job(store, job_id), now, policy)


async def resume_job(
    store: Store,
    job_id: str,
    now: int,
    policy: MisfirePolicy | None = None,
    *,
    by: str = "api",
    note: str = "",
) -> CatchUp:
    """Let a paused job fire again; return what was done about the times that the pause held back.

    `policy` decides that, or else the job's own. What runs does so at once, one after the other.
    `by` and `note` say who wants that, and why. Raises NotFound, or WrongState unless it is paused.
    """
    stored = await get_job(store, job_id)
    missed = what_to_catch_up(store, stored, now, policy)
    await store.scripts.run(
        *resume_call(store, stored, missed, now, codec.dump_note(by, now, note))
    )
    return missed


def resume_call(store: Store, stored: StoredJob, missed: CatchUp, now: int, reason: bytes) -> Call:
    """Return the call that resumes a job as it was read, with its note as stored."""
    job_id = stored.job.id
    shard = store.layout.shard_of(job_id)
    return (
        "resume_job",
        [shard.job(job_id), shard.buckets, shard.runs(job_id), shard.ledger],
        [
            job_id,
            now,
            reason,
            stored.job.next_run_at or "",
            "" if missed.next_at is None else missed.next_at + stored.offset_ms,
            " ".join(map(str, missed.run)),
            b"\n".join(
                [
                    _dump_skipped(missed.skipped, SkipReason.PAUSED),
                    *(_dump_skipped(closed, SkipReason.CALENDAR) for closed in missed.closed),
                ]
            ),
            shard.due_prefix,
            store.config.history_limit,
            store.config.ledger_limit,
        ],
    )


def what_to_catch_up(
    store: Store, stored: StoredJob, now: int, policy: MisfirePolicy | None
) -> CatchUp:
    """Return what resuming a job as it was read would run and skip. Raises WrongState unless it is
    paused."""
    job, first_at = stored.job, stored.next_nominal_at
    if job.state is JobState.PAUSED and first_at is None and job.depends:
        return CatchUp([], None, None)
    if job.state is not JobState.PAUSED or first_at is None:
        raise WrongState(f"job {job.id} is {job.state}; only a paused job can be resumed")
    return _missed(store, stored, first_at, now, policy, most=job.runs_left)


def _missed(
    store: Store,
    stored: StoredJob,
    first_at: int,
    now: int,
    policy: MisfirePolicy | None,
    *,
    most: int | None = None,
) -> CatchUp:
    if stored.plan.kind == "reboot":
        return catch_up_starts(first_at, store.starts, now, policy, most)
    until = now - stored.offset_ms
    calendars = store.calendars
    return catch_up(stored.plan, first_at, until, policy=policy, most=most, calendars=calendars)


def _dump_skipped(skipped: Skipped | None, reason: SkipReason) -> bytes:
    return b"" if skipped is None else codec.dump_skipped(skipped, reason)
