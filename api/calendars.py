"""Calendars over HTTP: list, show, put as JSON or iCalendar, delete.

`ETag` is the version; sent back as `If-Match` it keeps two writers from undoing each other.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.conditions import Conditions, unless_known
from api.operations import contract
from api.rules import shown
from api.taken import Taken
from api.wire import JsonResponse, read_body, read_bytes, read_query
from engine.errors import BadInput, NotFound
from engine.plan import Calendar
from engine.plan.calendar import WEEKDAYS, check_calendar_name
from engine.plan.ical import read_ical
from engine.store.calendars import delete_calendar, get_calendar, put_calendar
from engine.store.snapshot import read_calendars

_ICAL_TYPE = re.compile(r"text/calendar\s*(;.*)?", re.IGNORECASE)


_Date = Annotated[str, shown("string", format="date", examples=["2030-12-24"])]


class PutCalendar(Taken):
    """The body of `PUT /v1/calendars/{name}`: the whole calendar, with defaults for what is left
    out."""

    timezone: Annotated[str, shown("string", format="time-zone")] | None = None
    """A zone of the IANA database; null for that of each job."""
    weekdays: list[Annotated[str, shown("string", enum=[*WEEKDAYS])]] = [*WEEKDAYS]
    """The weekdays that are open."""
    hours: list[Annotated[str, shown("string", format="hours", examples=["09:00-17:30"])]] = []
    """The times of day that are open, in order and apart; without any all day is."""
    exclude: list[_Date] = []
    """Dates that are closed."""
    include: list[_Date] = []
    """Dates that are open, whatever else holds."""


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


class CalendarsOut(TypedDict):
    calendars: list[CalendarLine]


@contract(gives=CalendarsOut)
async def index(request: Request) -> Response:
    """Answer all calendars in order of their names."""
    found = (await read_calendars(backend_of(request).store)).by_name
    return JsonResponse({"calendars": [_line(found[name]) for name in sorted(found)]})


@contract(gives=CalendarOut, also=(304,), heeds=("If-None-Match",), headers=("ETag",))
async def show(request: Request) -> Response:
    """Answer one calendar, its version as the ETag."""
    calendar = await get_calendar(backend_of(request).store, _name_of(request))
    return unless_known(request, _answer(calendar, 200))


@contract(
    body=PutCalendar,
    takes_too=("text/calendar",),
    query=ImportIcal,
    gives=CalendarOut,
    also=(201,),
    heeds=("If-Match", "If-None-Match"),
    headers=("ETag",),
    refuses=("precondition_failed", "conflict"),
)
async def put(request: Request) -> Response:
    """Store a calendar: 201 if it is new. What an iCalendar file says takes the place of the
    excluded dates (or the included ones), and the rest stays as it is.

    Refuses with 412 another version than `If-Match` names, and with `If-None-Match: *` a calendar
    that is there.
    """
    backend = backend_of(request)
    name = check_calendar_name(request.path_params["name"])
    known = (await read_calendars(backend.store)).by_name.get(name)
    version = _asked_version(request, known)
    query, now = read_query(request, ImportIcal), backend.clock.now_ms()
    if _ICAL_TYPE.fullmatch(request.headers.get("content-type", "")):
        calendar = await _import(request, query, known or Calendar(name), now)
        if version is None and known:
            version = known.version
    else:
        body = await read_body(request, PutCalendar)
        calendar = Calendar.from_dict(name, body.model_dump())
    stored = await put_calendar(backend.store, calendar, now, version)
    return _answer(stored, 200 if known else 201)


@contract(status=204, heeds=("If-Match",), refuses=("precondition_failed", "conflict"))
async def delete(request: Request) -> Response:
    """Delete a calendar. Refuses with Conflict while a job names it, and with 412 another version
    than `If-Match` names."""
    store, name = backend_of(request).store, _name_of(request)
    version = _asked_version(request, await get_calendar(store, name))
    await delete_calendar(store, name, version)
    return Response(status_code=204)


async def _import(request: Request, query: ImportIcal, calendar: Calendar, now: int) -> Calendar:
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
    """Return the version that must stand still when it is written, 0 for none; None if any may."""
    conditions = Conditions.of(request)
    conditions.check(known.version if known else None)
    if known is None:
        return 0 if conditions.creates_only else None
    return known.version if conditions.names_version else None


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
