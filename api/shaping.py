"""Job bodies that look alike: what they share is checked, and worked out, once.

All of a body but its id and its payload is its shape. The first body of a shape is checked in full,
and so is every one of which anything looks odd, so that nothing is refused in other words, or let
in, because there was one like it before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson
from starlette.requests import Request

from api.access import caller_of
from api.backend import Backend, backend_of
from api.depends import calendars_for, depends_for
from api.forms import registration_of
from api.grants import grant
from api.schemas import CreateJob
from api.wire import check, dump_payload
from engine.access import Caller
from engine.model import MAX_PAYLOAD_BYTES
from engine.names import JOB_ID
from engine.registration import Registration, is_alike, random_id
from engine.store.creating import NewJob, Shape

MOST_SHAPES = 1_000
MOST_SHAPE_BYTES = 4_096
"""Of a shape that is remembered; larger ones are checked each time."""


@dataclass(frozen=True, slots=True)
class Template:
    """What a shape comes to for jobs that are registered at one moment."""

    made: Registration
    """One of them."""
    shape: Shape

    def job(self, job_id: str, payload: bytes) -> NewJob:
        """Return the job of this id."""
        return NewJob(job_id, self.shape, self._due_at(job_id), self.made.run_at, payload)

    def registration(self, job_id: str, payload: bytes) -> Registration:
        """Return the same as a registration."""
        due_at = self._due_at(job_id)
        job = replace(self.made.job, id=job_id, payload=payload, next_run_at=due_at)
        return Registration(job, self.made.plan, self.made.run_at)

    def _due_at(self, job_id: str) -> int | None:
        due_at, plan = self.made.job.next_run_at, self.made.plan
        if due_at is None or not plan.window_ms:
            return due_at
        return due_at - plan.offset_of(self.made.job.id) + plan.offset_of(job_id)


class Shaped(NamedTuple):
    """What a body comes to."""

    registration: Registration
    shape: Shape | None = None
    """Where it is known already."""
    allows_missing: bool = False


class Shaper:
    """Knows shapes of bodies that one caller, or callers without limits, may send."""

    def __init__(self, backend: Backend, caller: Caller) -> None:
        self._backend = backend
        self._caller = caller
        self._checked: dict[bytes, CreateJob] = {}
        """By shape: a body of it, without id and payload. The oldest first."""
        self._templates: dict[bytes, Template] = {}
        """By shape, for jobs that are registered at `_now`."""
        self._now = 0

    async def shape(self, sent: dict[str, Any], now: int) -> Shaped:
        """Return what a body comes to that is registered at `now`. Refuses what is wrong with
        it."""
        if found := await self.find(sent, now):
            template, job_id, payload = found
            return Shaped(template.registration(job_id, payload), template.shape)
        body = await self.check(sent)
        made = await self.register(body, now)
        self.learn(sent, body, made)
        return Shaped(made, None, body.allow_missing)

    async def find(self, sent: dict[str, Any], now: int) -> tuple[Template, str, bytes] | None:
        """Return the template of a body that is registered at `now`, its id, and its payload; None
        if it is to be checked in full. Refuses what the engine does."""
        rest = sent.copy()
        job_id, payload = rest.pop("job_id", None), dump_payload(rest.pop("payload", None))
        key = orjson.dumps(rest)
        if (body := self._checked.get(key)) is None or len(payload) > MAX_PAYLOAD_BYTES:
            return None
        if job_id is None:
            job_id = random_id()
        elif not isinstance(job_id, str) or not JOB_ID.fullmatch(job_id):
            return None
        return await self._template(key, body, now), job_id, payload

    async def _template(self, key: bytes, body: CreateJob, now: int) -> Template:
        if now != self._now:
            self._now, self._templates = now, {}
        templates = self._templates
        if (template := templates.get(key)) is None:
            made = await self.register(body, now)
            template = templates[key] = Template(made, Shape.of(made))
        return template

    async def check(self, sent: dict[str, Any]) -> CreateJob:
        """Return the body that is sent. Refuses what is wrong with it, and what is not there for
        the caller."""
        return await grant(
            self._backend, self._caller, check(sent, CreateJob, self._backend.context)
        )

    async def register(self, body: CreateJob, now: int) -> Registration:
        """Return the registration of a body. Refuses with BadInput what no field alone could
        tell."""
        store = self._backend.store
        calendars = await calendars_for(store, body)
        return registration_of(body, now, calendars, await depends_for(store, body))

    def learn(self, sent: dict[str, Any], body: CreateJob, made: Registration) -> None:
        """Remember the shape of a body that was checked in full, and registered."""
        rest = {name: value for name, value in sent.items() if name not in ("job_id", "payload")}
        key = orjson.dumps(rest)
        if made.job.depends or len(key) > MOST_SHAPE_BYTES or not is_alike(made):
            return
        if len(self._checked) >= MOST_SHAPES:
            del self._checked[next(iter(self._checked))]
        self._checked[key] = body.model_copy(update={"job_id": None, "payload": None})


def shaper_of(request: Request) -> Shaper:
    """Return the shaper for who sends a request. What is known of shapes is shared by callers that
    see all: nothing in a body is granted to one of them and not to another."""
    caller = caller_of(request)
    if caller.groups is not None:
        return Shaper(backend_of(request), caller)
    shaper = request.app.state.shaper
    assert isinstance(shaper, Shaper)
    return shaper
