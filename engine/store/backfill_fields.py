"""How a backfill is written down: the newest one of a job, in fields of the job's hash.

    backfill               JSON of what does not change: the order, its plan, its times
    backfill_number        which of the job's backfills it is, from 1
    backfill_state         a BackfillState
    backfill_concurrency   how many may be live at once
    backfill_covered       `first-last …`: what earlier backfills have passed
    backfill_at            the nominal time to judge next, '' at the end
    backfill_passed, backfill_started, backfill_live, backfill_succeeded, backfill_dead: counts

Scripts move state, place and counts on; the rest is written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from engine import codec
from engine.backfill import Backfill, BackfillState, Order, Range, Reprocess

FIELDS = (
    "backfill",
    "backfill_number",
    "backfill_state",
    "backfill_covered",
    "backfill_at",
    "backfill_passed",
    "backfill_started",
    "backfill_live",
    "backfill_succeeded",
    "backfill_dead",
)


def dump_definition(backfill: Backfill) -> bytes:
    """Return what does not change about a backfill."""
    fields = {
        **asdict(backfill.order),
        "plan_id": backfill.plan_id,
        "anchor_at": backfill.anchor_at,
        "created_at": backfill.created_at,
        "first_at": backfill.first_at,
        "times": backfill.times,
    }
    return codec.dump_json(fields)


def load_backfill(job_id: str, values: Sequence[bytes | None]) -> Backfill | None:
    """Return the backfill that the values of `FIELDS` are, None if there is none."""
    if values[0] is None:
        return None
    definition, number, state, covered, next_at, *counts = [value or b"" for value in values]
    fields = json.loads(definition)
    passed, started, live, succeeded, dead = map(int, counts)
    order = Order(
        fields.pop("from_at"),
        fields.pop("to_at"),
        Reprocess(fields.pop("reprocess")),
        fields.pop("concurrency"),
        fields.pop("backwards"),
    )
    return Backfill(
        job_id,
        int(number),
        order,
        covered=tuple(_load_range(text) for text in covered.split()),
        state=BackfillState(state.decode()),
        next_at=int(next_at) if next_at else None,
        passed=passed,
        started=started,
        live=live,
        succeeded=succeeded,
        dead=dead,
        **fields,
    )


def dump_covered(ranges: Iterable[Range]) -> str:
    return " ".join(f"{first}-{last}" for first, last in ranges)


def _load_range(text: bytes) -> Range:
    first, _, last = text.partition(b"-")
    return int(first), int(last)
