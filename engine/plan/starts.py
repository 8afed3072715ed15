"""Jobs that fire at each start of the deployment (`@reboot`): what stands for a time where there is
no clock time. Pure.

Such a job is in the due index like all others, but past all times of the clock, under
`PAST_ALL_TIMES` and the newest start that is none of its own: the last one it has dealt with, or
the moment at which it was registered. A start at T makes due what stands below
`PAST_ALL_TIMES + T`; firing moves the job there, so that nothing fires twice for one start, and
what a crash has interrupted is still to be found.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.catch_up import CatchUp
from engine.plan.plan import MisfirePolicy
from engine.plan.proposal import Proposal, Skipped

PAST_ALL_TIMES = 10**15
"""ms: in the year 33658. lua/lib/starts.lua has it too."""


def wait_from(at: int) -> int:
    """Return the `next_run_at` of a job that waits for the first start after `at`."""
    return PAST_ALL_TIMES + at


def clock_time(next_run_at: int | None) -> int | None:
    """Return a job's next time if it has one by the clock, else None."""
    return next_run_at if next_run_at is not None and next_run_at < PAST_ALL_TIMES else None


def propose_start(due_at: int, starts: Sequence[int]) -> Proposal | None:
    """Return what to do about a job that waits under `due_at`: the newest of `starts` (in order)
    fires however late it is, older ones that were not carried out are skipped as late. None if
    there was no start since."""
    missed = _since(due_at, starts)
    if not missed:
        return None
    return Proposal(missed[-1], wait_from(missed[-1]), _skipped(missed[:-1]))


def catch_up_starts(
    due_at: int,
    starts: Sequence[int],
    now: int,
    policy: MisfirePolicy | None = None,
    most: int | None = None,
) -> CatchUp:
    """Return what to do about the starts that a pause or an edit has kept from a job.

    None of them runs unless `policy` says so: a start that is over is not what the job is for. A
    job that has `most` runs left runs no more.
    """
    missed = _since(due_at, starts)
    wanted = {None: 0, "skip": 0, "fire_once": 1, "fire_all": len(missed)}[policy]
    kept = max(0, len(missed) - (wanted if most is None else min(wanted, most)))
    run = missed[kept:]
    next_at = None if most and len(run) == most else wait_from(max(now, *starts[-1:]))
    return CatchUp(run, _skipped(missed[:kept]), next_at)


def _since(due_at: int, starts: Sequence[int]) -> list[int]:
    return [at for at in starts if wait_from(at) > due_at]


def _skipped(times: Sequence[int]) -> Skipped | None:
    return Skipped("late", times[0], times[-1], len(times), True) if times else None
