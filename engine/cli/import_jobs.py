"""Registers what was imported, one job after the other, and says what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from engine.cli.client import Api, Refused
from engine.errors import JobExists, WrongState
from engine.importers import Draft, Note

Status = Literal["new", "created", "exists", "replaced", "refused"]


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one entry; `new` is what a dry run says of one that would be taken."""

    place: str
    status: Status
    job_id: str | None = None
    paused: bool = False
    next_run_at: str | None = None
    reason: str | None = None
    notes: tuple[Note, ...] = ()
    body: Mapping[str, Any] | None = None


def row_of(draft: Draft, status: Status, **more: Any) -> Row:
    return Row(draft.place, status, draft.job_id, draft.paused, notes=draft.notes, **more)


def register_all(api: Api, drafts: Iterable[Draft], on_conflict: str) -> Iterator[Row]:
    """Register each draft and yield what became of it. `on_conflict` is `keep`, which leaves a job
    that is there as it is, or `replace`. An API that does not answer ends it with
    ClickException."""
    for draft in drafts:
        try:
            yield _register(api, draft, on_conflict)
        except Refused as refused:
            yield row_of(draft, "refused", reason=refused.message)


def _register(api: Api, draft: Draft, on_conflict: str) -> Row:
    try:
        begins = {"paused": True} if draft.paused else {}
        job = api.post("jobs", body={**draft.body, **begins})
    except Refused as refused:
        if refused.code != JobExists.code:
            raise
        if on_conflict == "keep":
            return row_of(draft, "exists", reason="already there, and left as it is")
        if draft.paused:
            _pause(api, draft)
        job = api.put("jobs", draft.job_id, body=draft.body)
        return row_of(draft, "replaced", next_run_at=job["next_run_at"])
    return row_of(draft, "created", next_run_at=job["next_run_at"])


def _pause(api: Api, draft: Draft) -> None:
    try:
        api.post("jobs", draft.job_id, "pause", body={"note": "imported paused"})
    except Refused as refused:
        # Paused already, or through with its times.
        if refused.code != WrongState.code:
            raise


def rfc_3339(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
