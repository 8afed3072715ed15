"""Holds what the API answers against what its document says, in every test that calls it."""

from __future__ import annotations

from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from starlette.routing import Match, Route

from api.openapi import document
from api.routes import OPERATIONS

_ROUTES: list[tuple[Route, str]] = [(op.route(), op.path) for op in OPERATIONS]


async def check_answer(answer: httpx.Response) -> None:
    """Fail unless the document has the answer: its status, its media type, its body, its headers.
    A hook of httpx; the path of an unknown resource, or a method that no row has, is not judged."""
    request = answer.request
    assert answer.headers["x-content-type-options"] == "nosniff", request.url
    assert "cache-control" in answer.headers, request.url
    path = _path_of(request.method, request.url.path)
    if path is None:
        return
    said = document()["paths"][path][request.method.lower()]["responses"]
    where = f"{request.method} {path} -> {answer.status_code}"
    assert str(answer.status_code) in said, f"{where} is not in the document"
    shown = _resolved(said[str(answer.status_code)])
    if "ETag" in shown.get("headers", ()):
        assert "etag" in answer.headers, f"{where} has no ETag"
    contents: dict[str, Any] = shown.get("content", {})
    media = answer.headers.get("content-type", "").partition(";")[0]
    if not contents:
        assert not await answer.aread(), f"{where} has a body"
    elif media == "application/json" or media.endswith("+json"):
        assert media in contents, f"{where} is of type {media}"
        await answer.aread()
        errors = list(_validator(where, media).iter_errors(answer.json()))
        assert not errors, f"{where}: {errors[0].instance_path} {errors[0].message}"
    else:
        assert media in contents, f"{where} is of type {media!r}"


def _resolved(shown: dict[str, Any]) -> dict[str, Any]:
    if ref := shown.get("$ref"):
        return document()["components"]["responses"][ref.rpartition("/")[2]]  # type: ignore[no-any-return]
    return shown


def _path_of(method: str, path: str) -> str | None:
    scope = {"type": "http", "method": method, "path": path}
    for route, template in _ROUTES:
        if route.matches(scope)[0] is Match.FULL:
            return template
    return None


@cache
def _validator(where: str, media: str) -> Any:
    operation, _, status = where.partition(" -> ")
    method, path = operation.split()
    whole = document()
    said = _resolved(whole["paths"][path][method.lower()]["responses"][status])
    schema = said["content"][media]["schema"]
    rooted = {"allOf": [schema], "components": whole["components"]}
    return jsonschema_rs.validator_for({"$schema": _DRAFT, **rooted}, validate_formats=True)


_DRAFT = "https://json-schema.org/draft/2020-12/schema"
