"""Which events a listener hears of: those of jobs that are asked for, and there for the caller."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

from engine.access import Caller
from engine.store import Store
from engine.store.following import read_groups

MOST_KNOWN = 10_000
FRESH_S = 2.0
"""How long a job's group counts as known."""


class Seen:
    """What one listener hears of.

    Where groups count, a job's group is looked up, and remembered for a while: also beyond the end
    of the job, whose last events then still come. Of a job that nothing is known of nothing is
    told.
    """

    def __init__(
        self, store: Store, caller: Caller, job_id: str | None, prefix: str, group: str | None
    ) -> None:
        self._store = store
        self._caller = caller
        self._job_id = job_id
        self._prefix = prefix
        self._group = group
        self._known: OrderedDict[str, tuple[str | None, float]] = OrderedDict()

    @property
    def is_all(self) -> bool:
        """Whether the listener hears of every job."""
        named = (self._job_id, self._group, self._caller.groups)
        return named == (None, None, None) and not self._prefix

    async def among(self, subjects: Iterable[str]) -> set[str]:
        """Return those of these job and execution ids that the listener hears of."""
        jobs = {subject: subject.partition("@")[0] for subject in subjects}
        chosen = {
            subject: job_id
            for subject, job_id in jobs.items()
            if self._job_id in (None, job_id) and job_id.startswith(self._prefix)
        }
        if self._group is None and self._caller.groups is None:
            return set(chosen)
        await self._learn({*chosen.values()})
        return {subject for subject, job_id in chosen.items() if self._is_wanted(job_id)}

    def _is_wanted(self, job_id: str) -> bool:
        group = self._known[job_id][0] if job_id in self._known else None
        if group is None:
            return False
        return self._group in (None, group) and self._caller.sees(group)

    async def _learn(self, job_ids: set[str]) -> None:
        now = time.monotonic()
        stale = [j for j in job_ids if j not in self._known or self._known[j][1] < now - FRESH_S]
        for job_id, group in (await read_groups(self._store, stale)).items():
            self._known[job_id] = (group, now)
            self._known.move_to_end(job_id)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
