"""Calendars over HTTP: list, show, put as JSON or iCalendar, delete.

`ETag` is the version; sent back as `If-Match` it keeps two writers from undoing each other.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.taken import Taken
from api.wire import JsonResponse, if_match, read_body, read_bytes, read_query
from engine.errors import BadInput, NotFound
from engine.plan import Calendar
from engine.plan.calendar import check_calendar_name
from engine.plan.ical import read_ical
from engine.store.calendars import delete_calendar, get_calendar, put_calendar
from engine.store.snapshot import read_calendars

_ICAL_TYPE = re.compile(r"text/calendar\s*(;.*)?", re.IGNORECASE)


class PutCalendar(Taken):
    """The body of `PUT /v1/calendars/{name}`: the whole calendar, with defaults for what is left
    out."""

    timezone: str | None = None
    weekdays: list[str] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    hours: list[str] = []
    exclude: list[str] = []
    include: list[str] = []


class ImportIcal(Taken):
    """The query of a `PUT` of an iCalendar file."""

    dates: Literal["exclude", "include"] = "exclude"
    """Which of the calendar's dates become those of the file."""


class CalendarOut(TypedDict):
    name: str
    version: int
    timezone: str | None
    weekdays: list[str]
    hours: list[str]
    exclude: list[str]
    include: list[str]


class CalendarLine(TypedDict):
    """A calendar in a list: how many dates it has, without the dates."""

    name: str
    version: int
    timezone: str | None
    weekdays: list[str]
    hours: list[str]
    excluded: int
    included: int


@contract()
async def index(request: Request) -> Response:
    """Answer all calendars in order of their names."""
    found = (await read_calendars(backend_of(request).store)).by_name
    return JsonResponse({"calendars": [_line(found[name]) for name in sorted(found)]})


@contract(gives=CalendarOut)
async def show(request: Request) -> Response:
    calendar = await get_calendar(backend_of(request).store, _name_of(request))
    return _answer(calendar, 200)


@contract(body=PutCalendar, gives=CalendarOut, also=(201,))
async def put(request: Request) -> Response:
    """Store a calendar: 201 if it is new. What an iCalendar file says takes the place of the
    excluded dates (or the included ones), and the rest stays as it is.

    Refuses with 412 another version than `If-Match` names.
    """
    backend = backend_of(request)
    name = check_calendar_name(request.path_params["name"])
    known = (await read_calendars(backend.store)).by_name.get(name)
    version = _asked_version(request, known)
    now = backend.clock.now_ms()
    if _ICAL_TYPE.fullmatch(request.headers.get("content-type", "")):
        calendar = await _import(request, known or Calendar(name), now)
        if version is None and known:
            version = known.version
    else:
        body = await read_body(request, PutCalendar)
        calendar = Calendar.from_dict(name, body.model_dump())
    stored = await put_calendar(backend.store, calendar, now, version)
    return _answer(stored, 200 if known else 201)


@contract(status=204)
async def delete(request: Request) -> Response:
    """Delete a calendar. Refuses with Conflict while a job names it, and with 412 another version
    than `If-Match` names."""
    store, name = backend_of(request).store, _name_of(request)
    version = _asked_version(request, await get_calendar(store, name))
    await delete_calendar(store, name, version)
    return Response(status_code=204)


async def _import(request: Request, calendar: Calendar, now: int) -> Calendar:
    query = read_query(request, ImportIcal)
    try:
        text = (await read_bytes(request)).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"the file is not UTF-8 at byte {error.start}") from None
    # In a thread: a file of many rules takes a while, and others wait for answers.
    days = await asyncio.to_thread(read_ical, text, now=now, timezone=calendar.timezone or "UTC")
    if query.dates == "include":
        return replace(calendar, include=days)
    return replace(calendar, exclude=days)


def _name_of(request: Request) -> str:
    try:
        return check_calendar_name(request.path_params["name"])
    except BadInput:
        raise NotFound("there is no calendar of this name, nor can there be") from None


def _asked_version(request: Request, known: Calendar | None) -> int | None:
    """Return the version that must stand still when it is written; None if any may."""
    wanted = if_match(request)
    if wanted is None:
        return None
    if known is None or wanted != str(known.version):
        found = f"version {known.version}" if known else "no such calendar"
        raise HTTPException(412, f"there is {found} now, not the one of If-Match; read it")
    return known.version


def _answer(calendar: Calendar, status: int) -> Response:
    fields: dict[str, Any] = calendar.to_dict()
    shown: CalendarOut = {
        "name": calendar.name,
        "version": calendar.version,
        "timezone": fields["timezone"],
        "weekdays": fields["weekdays"],
        "hours": fields["hours"],
        "exclude": fields["exclude"],
        "include": fields["include"],
    }
    return JsonResponse(shown, status, {"ETag": f'"{calendar.version}"'})


def _line(calendar: Calendar) -> CalendarLine:
    fields: dict[str, Any] = calendar.to_dict()
    return {
        "name": calendar.name,
        "version": calendar.version,
        "timezone": fields["timezone"],
        "weekdays": fields["weekdays"],
        "hours": fields["hours"],
        "excluded": len(fields["exclude"]),
        "included": len(fields["include"]),
    }
