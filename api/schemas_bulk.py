"""What the bulk operations take beside their lines, and what they answer for each."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from api.problems import Fault
from api.rules import JobId
from api.taken import Taken


class CreateMany(Taken):
    """The query of `POST /v1/jobs/bulk`."""

    on_conflict: Literal["keep", "replace"] = "keep"
    """What becomes of a job whose id is taken: it stays, or it is replaced as by PUT."""


class DeleteMany(Taken):
    """The query of `POST /v1/jobs/bulk-delete`."""

    dependents: Literal["refuse", "cascade", "detach"] = "refuse"


class DeleteLine(Taken):
    """One line of `POST /v1/jobs/bulk-delete`, which may also be the bare id."""

    job_id: JobId


class LineOut(TypedDict):
    """What became of one line. `code`, `detail` and `errors` say what was wrong."""

    line: int
    job_id: str | None
    status: int
    code: NotRequired[str]
    detail: NotRequired[str]
    errors: NotRequired[list[Fault]]
