"""What stands of what files declare, read over the API: as little of a deployment as that takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from engine.cli.client import Api, Refused
from engine.declared import Declared, owner_tag
from engine.errors import NotFound

AT_ONCE = 8
"""Requests that are on their way together."""
FEW = 100
"""So many jobs are asked for by their ids; of more whole pages are read."""
PAGE = 1_000

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """What else is deleted, beside what an owner declared before: jobs of a group or with a prefix
    that are not in the files, and with `everything` calendars and limits, too."""

    group: str | None = None
    prefix: str | None = None
    everything: bool = False

    @property
    def has_jobs(self) -> bool:
        return self.group is not None or self.prefix is not None


@dataclass
class Live:
    """By name, as the API shows them."""

    jobs: dict[str, Answer] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    """Jobs that are there, and are to go unless they are declared."""
    calendars: dict[str, Answer] = field(default_factory=dict)
    queues: dict[str, Answer] = field(default_factory=dict)
    hosts: dict[str, Answer] = field(default_factory=dict)


def read_live(api: Api, declared: Declared, scope: Scope) -> Live:
    """Return what stands of what is declared, and of what is to go."""
    live = Live()
    if declared.owner is not None:
        live.jobs |= _by_id(job_pages(api, tag=owner_tag(declared.owner)))
    if scope.has_jobs:
        live.jobs |= _by_id(job_pages(api, group=scope.group, prefix=scope.prefix))
    live.doomed = {*live.jobs}
    missing = declared.jobs.keys() - live.jobs.keys()
    if len(missing) > FEW:
        begins = os.path.commonprefix([*missing]) or None  # noqa: RUF071 of ids, not of paths
        live.jobs |= _by_id(
            job for job in job_pages(api, prefix=begins) if job["job_id"] in missing
        )
    else:
        live.jobs |= _each(missing, lambda name: api.get("jobs", name))
    _read_calendars(api, declared, scope, live)
    for section in ("queues", "hosts"):
        names = {*declared.section(section)}
        if scope.everything:
            names |= {found[section[:-1]] for found in limit_pages(api, section)}
        getattr(live, section).update(_each(names, lambda name: api.get(section, name)))  # noqa: B023
    return live


def _read_calendars(api: Api, declared: Declared, scope: Scope, live: Live) -> None:
    wanted = {*declared.calendars}
    for entry in declared.jobs.values():
        named = entry.body.get("calendars")
        listed = named if isinstance(named, list) else ()
        wanted |= {name for name in listed if isinstance(name, str)}
    if not wanted and not scope.everything:
        return
    stand = {line["name"] for line in api.get("calendars")["calendars"]}
    names = stand if scope.everything else stand & wanted
    live.calendars = _each(names, lambda name: api.get("calendars", name))


def job_pages(api: Api, **query: object) -> Iterator[Answer]:
    """Yield the jobs of a search, in order of their ids."""
    after = None
    while True:
        page = api.get("jobs", limit=PAGE, after=after, **query)
        yield from page["jobs"]
        after = page["next"]
        if after is None:
            return


def limit_pages(api: Api, section: str) -> Iterator[Answer]:
    """Yield the queues, or hosts, for which something is set."""
    after = None
    while True:
        page, after = api.get_page(section, limit=PAGE, after=after)
        yield from (one for one in page if one["concurrency"] or one["rate"] or one["burst"] != 1)
        if after is None:
            return


def _by_id(jobs: Iterable[Answer]) -> dict[str, Answer]:
    return {job["job_id"]: job for job in jobs}


def _each(names: Iterable[str], ask: Callable[[str], Answer]) -> dict[str, Answer]:
    """Return what each name is answered, without those that are not there."""
    asked = sorted(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda name: _found(name, ask), asked)
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer}


def _found(name: str, ask: Callable[[str], Answer]) -> Answer | None:
    try:
        return ask(name)
    except Refused as refused:
        if refused.code != NotFound.code:
            raise
        return None
