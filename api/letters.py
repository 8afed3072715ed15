"""Dead letters over HTTP: list, show, redrive, discard; one by its id, or many by a filter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

import orjson
from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.access import caller_of
from api.answers import AttemptOut, StartedOut
from api.backend import backend_of
from api.history import attempt_out
from api.operations import contract
from api.paging import next_link
from api.rules import Instant, JobId, PageLimit, Prefix, Queue
from api.schemas import Nothing
from api.taken import Taken
from api.wire import JsonResponse, read_body, read_query, rfc_3339, verbatim
from engine.errors import BadInput, Conflict, NotFound
from engine.execution import DeadLetter, DeadReason, Record
from engine.names import split_execution_id, split_stream
from engine.store.letter_search import (
    SCAN_LIMIT,
    Found,
    LetterFilter,
    LetterLine,
    Place,
    count_letters,
    find_letters,
    read_lines,
    sees_letter,
)
from engine.store.letters import Redriven, discard_letters, get_letter, redrive_letters

MOST_ERROR_CHARS = 200
_BY = "api"
_PLACE = re.compile(r"([0-9]{1,15})-(.*)")
_REFUSALS = {
    Redriven.LIVE: "an execution of this id is live already",
    Redriven.NO_JOB: "its job was deleted: the letter can be looked at and discarded, not redriven",
}


def _read_place(text: object) -> object:
    """Return the place that a `next` names, None for the beginning."""
    if text is None:
        return None
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    try:
        if found and (not found[2] or split_execution_id(found[2])):
            return (int(found[1]), found[2])
    except BadInput:
        pass
    raise PydanticCustomError(
        BadInput.code,
        "send the `next` of the answer before, or the `after` of its header Link, as it came",
    )


After = Annotated[
    Any,
    BeforeValidator(_read_place),
    WithJsonSchema({"type": ["string", "null"], "format": "letter-place"}),
]
"""The `next` of an answer, taken as a place among the letters."""


class Letters(Taken):
    """Which letters: those for which all holds that is given."""

    job_id: JobId | None = None
    prefix: Prefix | None = None
    queue: Queue | None = None
    reason: Literal["exhausted", "final", "gone", "poison"] | None = None
    error: str | None = Field(None, min_length=1, max_length=MOST_ERROR_CHARS)
    from_: Instant | None = Field(None, alias="from")
    to: Instant | None = None
    after: After = None

    def to_filter(self) -> LetterFilter:
        return LetterFilter(
            job_id=self.job_id,
            prefix=self.prefix or None,
            queue=self.queue,
            reason=None if self.reason is None else DeadReason(self.reason),
            error=self.error,
            from_at=self.from_,
            to_at=self.to,
        )


class ListLetters(Letters):
    """The query of `GET /v1/dead`."""

    limit: PageLimit = 100


class ChosenLetters(Letters):
    """The body of `POST /v1/dead/redrive` and `/v1/dead/discard`. What means all says so."""

    all: bool = False
    limit: int = Field(SCAN_LIMIT, ge=1, le=SCAN_LIMIT)

    def to_choice(self) -> LetterFilter:
        """Return the filter. Refuses one that is empty without `all`, and `all` beside one."""
        chosen = self.to_filter()
        if chosen.is_empty is not self.all:
            raise BadInput('say which by a filter, or {"all": true} alone', field="all")
        return chosen


class LetterLineOut(TypedDict):
    """A dead letter in a list."""

    execution_id: str
    job_id: str
    scheduled_for: str
    died_at: str
    reason: str
    queue: str
    priority: str
    attempt_count: int
    error: str | None
    """With `status_code`, of the last attempt."""
    status_code: int | None


class LetterOut(LetterLineOut):
    """A dead letter by itself: as the last attempt had it, and all attempts that were kept."""

    target: Any
    payload: Any
    attempts: list[AttemptOut]


class DoneOut(TypedDict):
    """What was done in one bounded step, and the `after` of the next one."""

    redriven: NotRequired[int]
    skipped: NotRequired[dict[str, int]]
    discarded: NotRequired[int]
    examined: int
    """Letters that this step looked at."""
    left: int
    """Letters that the next steps will look at."""
    next: str | None


@contract(query=ListLetters, gives=list[LetterLineOut], headers=("Link",))
async def index(request: Request) -> Response:
    """Answer letters, the newest first. A page may be short, or empty, while `Link` leads on: one
    look goes through a bounded number of letters."""
    store = backend_of(request).store
    query = read_query(request, ListLetters)
    asked = _within(request, query.to_filter())
    found = await find_letters(store, asked, after=query.after, limit=query.limit)
    lines = await read_lines(store, found.places)
    return JsonResponse([_line(line) for line in lines], headers=next_link(request, _next(found)))


@contract(gives=LetterOut)
async def show(request: Request) -> Response:
    """Answer one letter: the execution as its last attempt had it, and its attempts."""
    execution_id = _id_of(request)
    await _check_letter(request, execution_id)
    letter = await get_letter(backend_of(request).store, execution_id)
    return JsonResponse(_shown(letter))


@contract(body=Nothing, may_be_empty=True, gives=StartedOut, status=202, refuses=("conflict",))
async def redrive(request: Request) -> Response:
    """Give one dead execution another attempt: 202 with its id. Refuses with Conflict while an
    execution of this id is live, and when its job was deleted."""
    backend, execution_id = backend_of(request), _id_of(request)
    await read_body(request, Nothing, may_be_empty=True)
    await _check_letter(request, execution_id)
    now = backend.clock.now_ms()
    became = (await redrive_letters(backend.store, [execution_id], now))[execution_id]
    if became is Redriven.GONE:
        raise _no_letter(execution_id)
    if became is not Redriven.REDRIVEN:
        raise Conflict(_REFUSALS[became])
    return JsonResponse({"execution_id": execution_id}, 202)


@contract(body=ChosenLetters, gives=DoneOut)
async def redrive_many(request: Request) -> Response:
    """Give dead executions another attempt: one bounded step of it, and where to go on."""
    backend = backend_of(request)
    body = await read_body(request, ChosenLetters)
    chosen = _within(request, body.to_choice())
    found = await find_letters(backend.store, chosen, after=body.after, limit=body.limit)
    ids = [execution_id for _, execution_id in found.places]
    became = list((await redrive_letters(backend.store, ids, backend.clock.now_ms())).values())
    skipped = [word for word in Redriven if word is not Redriven.REDRIVEN and word in became]
    done: DoneOut = {
        "redriven": became.count(Redriven.REDRIVEN),
        "skipped": {word.value: became.count(word) for word in skipped},
        **await _progress(request, chosen, found),  # type: ignore[typeddict-item]
    }
    return JsonResponse(done)


@contract(status=204)
async def discard(request: Request) -> Response:
    """Throw one letter away. The job's history keeps its records."""
    store, execution_id = backend_of(request).store, _id_of(request)
    await _check_letter(request, execution_id)
    letter = await get_letter(store, execution_id)
    if not await discard_letters(store, [(letter.died_at, execution_id)], by=_BY):
        raise _no_letter(execution_id)
    return Response(status_code=204)


@contract(body=ChosenLetters, gives=DoneOut)
async def discard_many(request: Request) -> Response:
    """Throw letters away: one bounded step of it, and where to go on."""
    store = backend_of(request).store
    body = await read_body(request, ChosenLetters)
    chosen = _within(request, body.to_choice())
    found = await find_letters(store, chosen, after=body.after, limit=body.limit)
    done: DoneOut = {
        "discarded": await discard_letters(store, found.places, by=_BY),
        **await _progress(request, chosen, found),  # type: ignore[typeddict-item]
    }
    return JsonResponse(done)


async def _progress(request: Request, chosen: LetterFilter, found: Found) -> dict[str, Any]:
    left, next_ = 0, _next(found)
    if chosen.groups is not None:
        # How many there are beside the caller's own is not told: at least one more look, or none.
        return {"examined": len(found.places), "left": int(next_ is not None), "next": next_}
    if found.after is not None:
        left = await count_letters(backend_of(request).store, chosen, found.after)
    return {"examined": found.examined, "left": left, "next": _next(found)}


def _within(request: Request, chosen: LetterFilter) -> LetterFilter:
    """Return what is meant of the letters that are there for the caller."""
    return replace(chosen, groups=caller_of(request).groups)


async def _check_letter(request: Request, execution_id: str) -> None:
    """Refuse with NotFound a letter that is not there for the caller."""
    store, groups = backend_of(request).store, caller_of(request).groups
    if not await sees_letter(store, execution_id, groups):
        raise _no_letter(execution_id)


def _next(found: Found) -> str | None:
    return None if found.after is None else _place_text(found.after)


def _place_text(place: Place) -> str:
    died_at, execution_id = place
    return f"{died_at}-{execution_id}"


def _id_of(request: Request) -> str:
    """Return the execution id in the path. Refuses with NotFound what no letter can be called."""
    execution_id: str = request.path_params["execution_id"]
    try:
        split_execution_id(execution_id)
    except BadInput:
        raise NotFound("there is no dead letter of this id, nor can there be") from None
    return execution_id


def _no_letter(execution_id: str) -> NotFound:
    return NotFound(f"there is no dead letter of {execution_id}")


def _line(line: LetterLine) -> LetterLineOut:
    return _line_out(
        line.execution_id, line.died_at, line.reason, line.stream, line.attempt, line.last
    )


def _shown(letter: DeadLetter) -> LetterOut:
    last = letter.attempts[0] if letter.attempts else None
    line = _line_out(
        letter.execution_id, letter.died_at, letter.reason, letter.queue, letter.attempt, last
    )
    return {
        **line,
        "target": _target_out(letter.target),
        "payload": verbatim(letter.payload),
        "attempts": [attempt_out(record) for record in letter.attempts],
    }


def _target_out(data: bytes) -> dict[str, Any]:
    """Return a target without the values of its URL's query: letters are passed around, and one of
    these may be a secret. The job itself shows them."""
    target: dict[str, Any] = orjson.loads(data)
    target.pop("signed_by", None)  # worked out when the job was stored; nobody sends it
    url, mark, query = target.get("url", "").partition("?")
    if mark:
        target["url"] = url + mark + "&".join(map(_without_value, query.split("&")))
    return target


def _without_value(parameter: str) -> str:
    name, sign, _ = parameter.partition("=")
    return f"{name}=***" if sign else "***"


def _line_out(
    execution_id: str,
    died_at: int,
    reason: DeadReason,
    stream: str,
    attempt: int,
    last: Record | None,
) -> LetterLineOut:
    job_id, nominal_at = split_execution_id(execution_id)
    queue, priority = split_stream(stream)
    return {
        "execution_id": execution_id,
        "job_id": job_id,
        "scheduled_for": rfc_3339(nominal_at),
        "died_at": rfc_3339(died_at),
        "reason": reason,
        "queue": queue,
        "priority": priority,
        "attempt_count": attempt,
        "error": last.error if last else None,
        "status_code": last.status_code if last else None,
    }
