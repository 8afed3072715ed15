"""Exports of older formats, record by record, as this release would have written them.

Format 1: a job had a field for each word of its head, and `definition` the time of its anchor.
"""

from __future__ import annotations

from typing import Any

from engine import codec
from engine.model import JobState

FORMATS = (1,)
"""Which are read beside the present one."""
_WORDS = ("state", "plan", "next_run_at", "live", "queue", "overlap", "retry", "rules")


def as_written_now(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of format 1 as one of today. Raises KeyError, ValueError for a wrong one."""
    if record["kind"] != "job":
        return record
    names, values = record["fields"][::2], record["fields"][1::2]
    fields = dict(zip(names, values, strict=True))
    old = {name: fields.pop(name, "") for name in _WORDS}
    head = codec.Head(
        # A backfill's executions are to be seen too; then it was looked for in each job.
        has_rules=old["rules"] != "" or "backfill_state" in fields,
        state=JobState(old["state"]),
        plan_id=old["plan"],
        next_run_at=int(old["next_run_at"]) if old["next_run_at"] else None,
        live=int(old["live"] or 0),
        stream=old["queue"],
        overlap=old["overlap"],
        retry=old["retry"].encode(),
    )
    created_at, anchor_at, *rest = codec.load_json(fields["definition"].encode())
    fields["definition"] = codec.dump_json([created_at, anchor_at - created_at, *rest])
    fields["head"] = codec.dump_head(head)
    return record | {"fields": [part for pair in fields.items() for part in pair]}
