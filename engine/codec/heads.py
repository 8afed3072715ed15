"""The field `head` of a job's hash: what scripts compare and change most.

lua/lib/head.lua says how it is written, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.model import JobState


@dataclass(frozen=True, slots=True)
class Head:
    """A job's head, word by word. `live` counts the executions that no backfill started; `retry` is
    JSON, b"" for the default policy."""

    has_rules: bool
    state: JobState
    plan_id: str
    next_run_at: int | None
    live: int
    stream: str
    overlap: str
    retry: bytes

    def is_due_at(self, due_at: int) -> bool:
        """Return whether the job is to fire at this time."""
        return self.state is JobState.ACTIVE and self.next_run_at == due_at


def load_head(data: bytes) -> Head:
    """Return what a head says."""
    rules, state, plan_id, next_run_at, live, stream, overlap, *retry = data.split(b" ", 7)
    return Head(
        has_rules=rules == b"+",
        state=JobState(state.decode()),
        plan_id=plan_id.decode(),
        next_run_at=None if next_run_at == b"-" else int(next_run_at),
        live=int(live),
        stream=stream.decode(),
        overlap=overlap.decode(),
        retry=retry[0] if retry else b"",
    )


def dump_head(head: Head) -> bytes:
    """Return a head as a job's hash holds it."""
    words = (
        b"+" if head.has_rules else b"-",
        head.state.encode(),
        head.plan_id.encode(),
        b"-" if head.next_run_at is None else b"%d" % head.next_run_at,
        b"%d" % head.live,
        head.stream.encode(),
        head.overlap.encode(),
        *([head.retry] if head.retry else []),
    )
    return b" ".join(words)
