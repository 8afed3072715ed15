"""Conditions of a request (RFC 9110, 13): done only while that stands on which it was decided.

An ETag begins with the version, which each write moves on. Where a thing changes by itself, too, as
a job does when it fires, a mark of when it was made follows, and a digest of all that is shown:
`If-None-Match` misses none of it. `If-Match` looks at version and mark alone, or nobody could write
what fires each second; without the mark it takes a job that was deleted and made anew for the old
one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_DIGEST = re.compile(r"\.[0-9a-f]{16}$")
_MARK_BYTES, _DIGEST_BYTES = 4, 8
_ANY = frozenset({"*"})


@dataclass(frozen=True, slots=True)
class Conditions:
    """What must stand, or must not, for a write to be done: versions as text, with the
    mark where it was sent, or `*` for any."""

    match: frozenset[str] | None = None
    none_match: frozenset[str] | None = None

    @classmethod
    def of(cls, request: Request) -> Conditions:
        return cls(_versions(request, "if-match"), _versions(request, "if-none-match"))

    @property
    def creates_only(self) -> bool:
        """Whether nothing may be there yet."""
        return self.none_match == _ANY

    @property
    def names_version(self) -> bool:
        """Whether another version than the one that was found must not be written."""
        return self.match not in (None, _ANY)

    def check(self, version: int | None, made_at: str = "") -> None:
        """Refuse with 412 a write where this version stands, None for nothing, if it may not;
        `made_at` is the time from which `tagged` made the mark."""
        found = "nothing here" if version is None else f"version {version}"
        if self.match is not None and not _holds(self.match, version, made_at):
            raise HTTPException(412, f"there is {found} now, not the one of If-Match; read it")
        if self.none_match is not None and _holds(self.none_match, version, made_at):
            raise HTTPException(412, f"there is {found} already, which If-None-Match rules out")


UNCONDITIONAL = Conditions()


def tagged(answer: Response, version: int, made_at: str) -> Response:
    """Return the answer with the ETag of a thing that changes by itself, too, and was made then."""
    digest = _digest(answer.body, _DIGEST_BYTES)
    answer.headers["ETag"] = f'"{version}.{_mark(made_at)}.{digest}"'
    return answer


def unless_known(request: Request, answer: Response) -> Response:
    """Return the answer, or 304 in its place to a caller who has it already (`If-None-Match`)."""
    known = {tag.removeprefix("W/") for tag in _tags(request, "if-none-match") or ()}
    tag = answer.headers["ETag"]
    if tag in known or known == _ANY:
        return Response(status_code=304, headers={"ETag": tag})
    return answer


def _tags(request: Request, header: str) -> list[str] | None:
    given = request.headers.getlist(header)
    return [tag.strip() for tag in ",".join(given).split(",")] if given else None


def _versions(request: Request, header: str) -> frozenset[str] | None:
    """Return the versions that a header names. What is no version is equal to none."""
    tags = _tags(request, header)
    if tags is None:
        return None
    return frozenset(_DIGEST.sub("", tag.removeprefix('"').removesuffix('"')) for tag in tags)


def _holds(versions: frozenset[str], version: int | None, made_at: str) -> bool:
    if version is None or versions == _ANY:
        return version is not None
    return not versions.isdisjoint((str(version), f"{version}.{_mark(made_at)}"))


def _mark(made_at: str) -> str:
    return _digest(made_at.encode(), _MARK_BYTES)


def _digest(data: bytes | memoryview, size: int) -> str:
    return hashlib.blake2b(data, digest_size=size).hexdigest()
