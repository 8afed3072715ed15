"""The API's own description: OpenAPI 3.1, made of the types that validate and of the route table.

What a schema cannot say (a cron expression, a zone) stays a text with a `format` and a description:
the operation itself says what is wrong with one.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from itertools import chain
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.backend import backend_of
from api.examples import EXAMPLES
from api.openapi_schemas import Schemas, not_null
from api.openapi_webhooks import webhooks
from api.openapi_words import (
    ABOUT,
    ANSWER_HEADERS,
    LINKS,
    PARTS,
    PATH_PARAMETERS,
    REQUEST_HEADERS,
    problem_example,
)
from api.operations import Contract, Operation, contract
from api.problems import STATUS
from engine import __version__
from engine.errors import CODES

VERSION = "3.1.0"
_PATCH_TYPE = "application/merge-patch+json"
_WAITS = ("rate_limited", "request_in_progress", "unavailable")
"""Codes that come with Retry-After."""
UNCHANGING = ("job_id", "paused")
"""Fields of a job that no patch changes."""
_LIMITS = ("RateLimit", "RateLimit-Policy")
_KEY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "wck_…",
    "description": "An API key; `waterclock keys create` makes the first one.",
}


@contract(gives=dict[str, Any], also=(304,), heeds=("If-None-Match",), headers=("ETag",))
async def show(request: Request) -> Response:
    """Answer the description of this API, as OpenAPI 3.1."""
    body, tag = _rendered(backend_of(request).gate.asks_for_keys)
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


@cache
def _rendered(asks_for_keys: bool) -> tuple[bytes, str]:
    """Return the document as bytes, and their ETag."""
    body = orjson.dumps(document(asks_for_keys=asks_for_keys))
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


@cache
def document(*, asks_for_keys: bool = True) -> dict[str, Any]:
    """Return the document for the whole route table, of an API that asks for keys or of one that
    does not."""
    from api.routes import OPERATIONS  # which this handler is in

    return build(OPERATIONS, asks_for_keys=asks_for_keys)


def build(operations: Sequence[Operation], *, asks_for_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI document for these operations."""
    schemas = Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        shown = _described(operation, schemas)
        if asks_for_keys and operation.scope is not None:
            shown["security"] = [{"key": []}]
        paths.setdefault(operation.path, {})[operation.method.lower()] = shown
    parts = {operation.part for operation in operations}
    refusals = {codes for operation in operations for codes in _refusals(operation).values()}
    return {
        "openapi": VERSION,
        "info": {
            "title": "Waterclock",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": [
            {"name": part, "description": about} for part, about in PARTS.items() if part in parts
        ],
        "paths": paths,
        "webhooks": webhooks(),
        "components": {
            "schemas": schemas.shared,
            "responses": {".".join(codes): _refused(codes, schemas) for codes in sorted(refusals)},
            "examples": {
                code: problem_example(code) for code in sorted({*chain.from_iterable(refusals)})
            },
            "headers": {
                name: {"description": about, "schema": {"type": "string"}}
                for name, about in ANSWER_HEADERS.items()
            },
            "securitySchemes": {"key": _KEY} if asks_for_keys else {},
        },
    }


def _described(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    about = _in_words(inspect.getdoc(operation.handler.answer) or "")
    shown: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.part],
        "summary": re.split(r"(?<=\w)[.:;] ", about + " ")[0].rstrip(". "),
        "description": about,
        "parameters": [*_parameters(operation, schemas)],
        "responses": _responses(operation, schemas),
    }
    if operation.scope is not None:
        shown["x-scope"] = operation.scope.value
    if content := _content(operation, schemas):
        is_needed = not operation.handler.contract.may_be_empty
        shown["requestBody"] = {"required": is_needed, "content": content}
    return shown


def _content(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """Return the bodies that an operation takes, by their media types."""
    said, body = operation.handler.contract, schemas.of(operation, "body")
    if body is None:
        return {}
    is_patch = operation.method == "PATCH"
    if is_patch:
        body = schemas.patch_of(body)
        for name in UNCHANGING:
            body["properties"].pop(name, None)
    media: dict[str, Any] = {"schema": body}
    if operation.name in EXAMPLES:
        media["examples"] = EXAMPLES[operation.name]
    content = {said.takes: media, **({_PATCH_TYPE: media} if is_patch else {})}
    return content | {kind: {"schema": {"type": "string"}} for kind in said.takes_too}


def _in_words(doc: str) -> str:
    """Return a handler's docstring in one line, with codes for the names of errors."""
    text = " ".join(doc.split())
    for code, error in CODES.items():
        text = re.sub(rf"\b{error.__name__}\b", f"`{code}`", text)
    return text


def _parameters(operation: Operation, schemas: Schemas) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        schema = {"type": "string", **PATH_PARAMETERS.get(name, {"minLength": 1})}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if model := schemas.of(operation, "query"):
        for name, said in model.get("properties", {}).items():
            is_needed, schema = name in model.get("required", ()), not_null(said)
            shown = {"name": name, "in": "query", "required": is_needed, "schema": schema}
            if about := schema.get("description"):
                shown["description"] = about
            yield shown
    always = ("Idempotency-Key",) if operation.method == "POST" else ()
    for name in (*always, *operation.handler.contract.heeds):
        about, schema = REQUEST_HEADERS[name]
        yield {"name": name, "in": "header", "description": about, "schema": schema}


def codes_of(operation: Operation) -> set[str]:
    """Return the codes with which an operation may refuse."""
    said = operation.handler.contract
    # An unknown query parameter is refused by all.
    codes = {*said.refuses, "bad_input", "internal"}
    if said.body is not None:
        codes |= {"too_large", "unsupported_media_type", "request_timeout"}
    if "{" in operation.path:
        codes |= {"not_found"}
    if operation.method == "POST":
        codes |= {"idempotency_conflict", "request_in_progress", "too_large", "request_timeout"}
    if operation.scope is not None:
        codes |= {"unauthorized", "forbidden", "cross_site", "rate_limited"}
    if operation.part != "openapi":
        codes |= {"unavailable", "unusable", "frozen"}
    return codes & STATUS.keys()


def _responses(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    said = operation.handler.contract
    shown: dict[str, Any] = {}
    limits = () if operation.scope is None else _LIMITS
    replayed = ("Idempotency-Replayed",) if operation.method == "POST" else ()
    # A repeat of what has created something is answered with 200: it created nothing.
    repeated = {200} if operation.method == "POST" and said.status == 201 else set()
    for status in sorted({said.status, *said.also} | repeated):
        headers = (*said.headers, *replayed, *limits)
        shown[str(status)] = _success(status, said, schemas.of(operation, "gives"), headers)
        if operation.name in LINKS:
            shown[str(status)]["links"] = _links(*LINKS[operation.name])
    for status, codes in sorted(_refusals(operation).items()):
        shown[str(status)] = {"$ref": f"#/components/responses/{'.'.join(codes)}"}
    return shown


def _refusals(operation: Operation) -> dict[int, tuple[str, ...]]:
    """Return the codes with which an operation may refuse, by their status."""
    refusals: dict[int, tuple[str, ...]] = {}
    for code in sorted(codes_of(operation)):
        refusals[STATUS[code]] = (*refusals.get(STATUS[code], ()), code)
    return refusals


def _refused(codes: tuple[str, ...], schemas: Schemas) -> dict[str, Any]:
    """Return the response of a refusal with one of these codes, which are of one status."""
    waits = ("Retry-After",) if any(code in _WAITS for code in codes) else ()
    asks = ("WWW-Authenticate",) if "unauthorized" in codes else ()
    phrase = HTTPStatus(STATUS[codes[0]]).phrase
    return {
        "description": f"{phrase}: " + ", ".join(f"`{code}`" for code in codes),
        "headers": _headers((*waits, *asks, *_LIMITS)),
        "content": {
            "application/problem+json": {
                "schema": schemas.problem,
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _success(
    status: int, said: Contract, gives: dict[str, Any] | None, headers: Sequence[str]
) -> dict[str, Any]:
    shown = {"description": HTTPStatus(status).phrase, "headers": _headers(headers)}
    if gives is not None and status not in (204, 304):
        shown["content"] = {said.yields: {"schema": gives}}
    return shown


def _links(field: str, operations: Sequence[str]) -> dict[str, Any]:
    """Return what can be done next with what an answer names."""
    names = {field: f"$response.body#/{field}"}
    return {name: {"operationId": name, "parameters": names} for name in operations}


def _headers(names: Sequence[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
