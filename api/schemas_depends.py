"""What the API takes about jobs that depend on jobs, field by field, as api/schemas.py does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from api.rules import in_full, shown, whole_number
from api.taken import Taken
from engine.codec import dump_result
from engine.depends import MOST_UPSTREAMS, Condition
from engine.errors import BadInput
from engine.names import JOB_ID, check_job_id

DEPENDENT_ONLY = {"join", "match", "gate", "gate_deadline_ms", "allow_missing"}
"""Fields of a job that go with `depends_on` only."""
MOST_LEVELS = 1_000


def _refuse(detail: str, field: str = "") -> PydanticCustomError:
    return PydanticCustomError(BadInput.code, "{detail}", {"detail": detail, "field": field})


def _check_upstream(job_id: str) -> str:
    try:
        return check_job_id(job_id)
    except BadInput as error:
        raise _refuse(error.message) from None


_ID = shown("string", "The id of a job.", pattern=in_full(JOB_ID), examples=["extract"])


class UpstreamIn(Taken):
    job: Annotated[str, AfterValidator(_check_upstream), _ID]
    condition: Literal["succeeded", "failed", "finished"] = "succeeded"

    def to_condition(self) -> Condition:
        return Condition(self.condition)


def _by_its_id(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Take a bare id for a job that is to succeed."""
    return UpstreamIn(job=_check_upstream(value)) if isinstance(value, str) else check(value)


class _OrItsId:
    """Says in the API's document what `_by_its_id` takes."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), _ID.json_schema]}


def _check_once(upstreams: list[UpstreamIn]) -> list[UpstreamIn]:
    seen: set[str] = set()
    for at, upstream in enumerate(upstreams):
        if upstream.job in seen:
            raise _refuse(f"job {upstream.job} stands here twice", f"depends_on.{at}")
        seen.add(upstream.job)
    return upstreams


UpstreamsIn = Annotated[
    list[Annotated[UpstreamIn, WrapValidator(_by_its_id), _OrItsId()]],
    Field(max_length=MOST_UPSTREAMS),
    AfterValidator(_check_once),
]


def check_depends(upstreams: Sequence[UpstreamIn], others: Mapping[str, Any]) -> None:
    """Refuse fields that say how to wait where there is nothing to wait for, or no gate to hold."""
    usual = {"join": "all", "match": None, "gate": False, "gate_deadline_ms": None}
    for name, value in others.items():
        if not upstreams and value != usual.get(name, False):
            raise _refuse("this goes with `depends_on` only", name)
    if others["gate_deadline_ms"] is not None and not others["gate"]:
        raise _refuse("this goes with `gate` only", "gate_deadline_ms")
    if others["gate"] and others["match"] == "latest":
        raise _refuse("a gate waits for the executions of its own times; leave match out", "match")


def _check_result(value: Any) -> bytes:
    try:
        return dump_result(value)
    except BadInput as error:
        raise _refuse(error.message) from None


ExecutionResult = Annotated[bytes, BeforeValidator(_check_result)]
"""Any JSON value, taken as its bytes; none for null."""


def refuse_result(result: bytes) -> None:
    """Refuse what only a success has, where it is given with another status."""
    if result:
        raise _refuse("this goes with status `succeeded` only", "result")


class DeleteJob(Taken):
    """The query of `DELETE /v1/jobs/{job_id}`."""

    dependents: Literal["cascade", "detach"] | None = None
    """What becomes of jobs that depend on this one; without it they keep it from going."""


class LookAround(Taken):
    """The query of `GET /v1/jobs/{job_id}/graph`."""

    depth: Annotated[int, Field(ge=0, le=MOST_LEVELS), BeforeValidator(whole_number)] = MOST_LEVELS


class RunAgain(Taken):
    """The body of `POST /v1/executions/{execution_id}/rerun`, which need not be sent."""

    downstream: bool = False
    """Run what is below it again, too."""
