"""Jobs by the thousand, a line each: created and deleted while the body still comes.

A line is worked off like a request of its own, and in order: one that is refused stops none of the
others. What was answered is stored. Of a connection that is cut, a few lines behind the last answer
may be stored too, as with any request whose answer is lost.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.access import caller_of
from api.backend import Backend, backend_of
from api.edits import write_job
from api.grants import charge, charge_new, circles_kept_dark, count_one_more
from api.jobs import id_taken
from api.lines import NDJSON, REFUSED, Line, Store, answer_lines, check_line, refusal
from api.operations import contract
from api.rules import JobId
from api.schemas import REFUSED_IN_A_JOB, CreateJob
from api.schemas_bulk import CreateMany, DeleteLine, DeleteMany, LineOut
from api.shaping import Shaper, shaper_of
from api.wire import check, parse_json, read_query
from engine.access import Caller, Quotas
from engine.errors import BadInput
from engine.names import JOB_ID
from engine.store.connection import TRANSIENT
from engine.store.creating import NewJob, store_new
from engine.store.registering import Dependents, register_job, remove_job
from engine.store.removing import remove_plain
from engine.store.visible import check_alone, check_seen, seen_jobs


@contract(
    body=CreateJob,
    takes=NDJSON,
    query=CreateMany,
    gives=LineOut,
    yields=NDJSON,
    refuses=REFUSED_IN_A_JOB,
)
async def create(request: Request) -> Response:
    """Store a job for each line of the body, and answer a line for each, in order, while they come.
    A job whose id is taken stays as it is (409), or is replaced as by PUT (200)."""
    query, backend = read_query(request, CreateMany), backend_of(request)
    replaces = query.on_conflict == "replace"
    creating = _Creating(backend, caller_of(request), shaper_of(request), replaces=replaces)
    return answer_lines(request, creating.take)


@contract(body=DeleteLine | JobId, takes=NDJSON, query=DeleteMany, gives=LineOut, yields=NDJSON)
async def delete(request: Request) -> Response:
    """Delete the job that each line names, and answer a line for each, in order (204)."""
    query, backend = read_query(request, DeleteMany), backend_of(request)
    deleting = _Deleting(backend, caller_of(request), Dependents(query.dependents))
    return answer_lines(request, deleting.take)


class _Asked(NamedTuple):
    """What a line asks for: a job that is all worked out, the body of one that is to be registered
    by itself, or an error that is the answer."""

    line: Line
    what: NewJob | CreateJob | Exception


class _Creating:
    """Creates the jobs of one request."""

    def __init__(self, backend: Backend, caller: Caller, shaper: Shaper, *, replaces: bool) -> None:
        self._backend = backend
        self._caller = caller
        self._shaper = shaper
        self._is_metered = caller.quotas != Quotas()
        self._now = 0
        self._replaces = replaces

    async def take(self, lines: list[Line]) -> Store:
        # All of them are registered at one moment.
        self._now = self._backend.clock.now_ms()
        return partial(self._store, [_Asked(line, await self._look(line)) for line in lines])

    async def _look(self, line: Line) -> NewJob | CreateJob | Exception:
        try:
            check_line(line)
            if self._is_metered:
                count_one_more(self._backend, self._caller)
            sent = parse_json(line[1])
            if not isinstance(sent, dict):
                raise BadInput("each line must be a JSON object")
            if found := await self._shaper.find(sent, self._now):
                template, job_id, payload = found
                job = template.job(job_id, payload)
            else:
                body = await self._shaper.check(sent)
                if body.depends_on:
                    return body
                made = await self._shaper.register(body, self._now)
                self._shaper.learn(sent, body, made)
                job = NewJob.of(made)
            if self._is_metered:
                await charge_new(self._backend, self._caller, len(job.payload))
            return job
        except REFUSED as error:
            return error

    async def _store(self, asked: list[_Asked]) -> bytes:
        answers: list[bytes] = []
        for kind, group in groupby(asked, key=lambda one: type(one.what)):
            if kind is NewJob:
                answers += await self._store_new([*group])
            else:
                answers += [await self._store_one(*one) for one in group]
        return b"".join(answers)

    async def _store_new(self, asked: list[_Asked]) -> list[bytes]:
        jobs = [one.what for one in asked if isinstance(one.what, NewJob)]
        try:
            stored = await store_new(self._backend.store, jobs)
        except TRANSIENT as error:
            stored = [error] * len(jobs)
        return [
            await self._not_new(line, job.id, answer)
            if isinstance(answer, Exception) or not answer
            else _done(line[0], job.id, 201)
            for (line, _), job, answer in zip(asked, jobs, stored, strict=True)
        ]

    async def _store_one(self, line: Line, what: NewJob | CreateJob | Exception) -> bytes:
        if not isinstance(what, CreateJob):
            assert isinstance(what, Exception)
            return refusal(line[0], _id_in(line), what)
        try:
            made = await self._shaper.register(what, self._now)
            await charge(self._backend, self._caller, made)
            with circles_kept_dark(self._caller):
                is_new = await register_job(
                    self._backend.store, made, allow_missing=what.allow_missing
                )
        except REFUSED as error:
            return refusal(line[0], what.job_id, error)
        if is_new:
            return _done(line[0], made.job.id, 201)
        return await self._not_new(line, made.job.id, 0)

    async def _not_new(self, line: Line, job_id: str, answer: int | Exception) -> bytes:
        """Answer for a job that was not created: its id is taken, or something went wrong."""
        number, text = line
        if isinstance(answer, Exception):
            return refusal(number, job_id, answer)
        if not self._replaces:
            return refusal(number, job_id, id_taken(job_id))
        try:
            body = parse_json(text)
            with circles_kept_dark(self._caller):
                made = await write_job(
                    self._backend, job_id, lambda _: body, may_create=True, caller=self._caller
                )
        except REFUSED as error:
            return refusal(number, job_id, error)
        return _done(number, job_id, 201 if made else 200)


class _Deleting:
    """Deletes the jobs of one request."""

    def __init__(self, backend: Backend, caller: Caller, dependents: Dependents) -> None:
        self._backend = backend
        self._caller = caller
        self._dependents = dependents

    async def take(self, lines: list[Line]) -> Store:
        return partial(self._store, [(line[0], self._look(line)) for line in lines])

    def _look(self, line: Line) -> str | Exception:
        try:
            check_line(line)
            count_one_more(self._backend, self._caller)
            named = parse_json(line[1])
            sent = {"job_id": named} if isinstance(named, str) else named
            if not isinstance(sent, dict):
                raise BadInput("each line must be the id of a job, or an object with it")
            return check(sent, DeleteLine, None).job_id
        except REFUSED as error:
            return error

    async def _store(self, asked: list[tuple[int, str | Exception]]) -> bytes:
        store = self._backend.store
        ids = {what for _, what in asked if isinstance(what, str)}
        try:
            if self._caller.groups is not None:
                ids = await seen_jobs(store, self._caller, ids)
            removed = await remove_plain(store, ids)
        except TRANSIENT as error:
            removed = dict.fromkeys(ids, error)
        return b"".join([await self._answer(number, what, removed) for number, what in asked])

    async def _answer(
        self, number: int, what: str | Exception, removed: dict[str, Exception | None]
    ) -> bytes:
        if isinstance(what, Exception):
            return refusal(number, None, what)
        try:
            # A second line for a job finds it gone, as a second request would.
            if what not in removed:
                await self._remove(what)
            elif (error := removed.pop(what)) is not None:
                raise error
        except REFUSED as error:
            return refusal(number, what, error)
        return _done(number, what, 204)

    async def _remove(self, job_id: str) -> None:
        store, cascade = self._backend.store, self._dependents is Dependents.CASCADE
        await check_seen(store, self._caller, job_id)
        await check_alone(store, self._caller, job_id, cascade=cascade)
        await remove_job(store, job_id, self._backend.clock.now_ms(), self._dependents)


def _id_in(line: Line) -> str | None:
    """Return the id in a line that was refused, if that at least can be read."""
    with suppress(BadInput):
        sent = parse_json(line[1])
        job_id = sent.get("job_id") if isinstance(sent, dict) else None
        return job_id if isinstance(job_id, str) and JOB_ID.fullmatch(job_id) else None
    return None


def _done(line: int, job_id: str, status: int) -> bytes:
    # An id holds nothing that JSON would escape.
    return f'{{"line":{line},"job_id":"{job_id}","status":{status}}}\n'.encode()
