"""Bytes to values and back: bodies and queries in, JSON out. The API's door to orjson.

What is taken is checked in full before anything is done: size, type, JSON, then the model.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, TypeVar, get_origin

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.problems import Fault, Invalid, pointer_to
from engine.errors import CODES, BadInput

MAX_BODY_BYTES = 1024 * 1024
BODY_S = 30.0
"""How long a body may pause."""

_CHARSET = r'\s*(;\s*charset="?utf-8"?\s*)?'
_JSON_TYPE = re.compile(f"application/json{_CHARSET}", re.IGNORECASE)
_PATCH_TYPE = re.compile(f"application/(json|merge-patch\\+json){_CHARSET}", re.IGNORECASE)
_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{19}")

_WORDS = {
    "missing": "this field is required",
    "extra_forbidden": "there is no such field",
    "model_type": "this must be an object",
    "model_attributes_type": "this must be an object",
    "union_tag_not_found": "the field `type` is required",
}
"""What pydantic says for a programmer, in words for a caller."""

_NO_PARAMETER = "there is no such query parameter"
_NO_QUERY: Fault = {"parameter": "", "detail": "there is no query here"}

Model = TypeVar("Model", bound=BaseModel)


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


async def read_body(
    request: Request,
    model: type[Model],
    *,
    may_be_empty: bool = False,
    context: dict[str, Any] | None = None,
) -> Model:
    """Return the body as a `model`. With `may_be_empty` no body at all stands for `{}`.

    Refuses: 413 a body over 1 MiB, 415 what is not application/json, BadInput what is no JSON
    object, Invalid what the model refuses.
    """
    return check(await read_object(request, may_be_empty=may_be_empty), model, context)


async def read_object(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return the body as a JSON object. Refuses as `read_body` does before it asks the model."""
    body = await read_bytes(request)
    if may_be_empty and not body:
        return {}
    data = _parse(request, body)
    if not isinstance(data, dict):
        raise BadInput("the body must be a JSON object")
    return data


async def read_list(request: Request, model: type[Model], most: int) -> list[Model]:
    """Return the body as a list of `model`, of `most` at the most. Refuses as `read_body` does."""
    data = _parse(request, await read_bytes(request))
    if not isinstance(data, list) or not 0 < len(data) <= most:
        raise BadInput(f"the body must be a JSON array of 1 to {most} objects")
    try:
        return TypeAdapter(list[model]).validate_python(data)  # type: ignore[valid-type]
    except ValidationError as error:
        raise _invalid(error, in_query=False) from None


def _parse(request: Request, body: bytes) -> Any:
    expected = _PATCH_TYPE if request.method == "PATCH" else _JSON_TYPE
    if not expected.fullmatch(request.headers.get("content-type", "")):
        raise HTTPException(415, "send the body as Content-Type: application/json")
    return parse_json(body)


def check(data: dict[str, Any], model: type[Model], context: dict[str, Any] | None) -> Model:
    """Return an object of a body as a `model`. Refuses with Invalid what it refuses."""
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        raise _invalid(error, in_query=False) from None


def read_query(request: Request, model: type[Model]) -> Model:
    """Return the query parameters as a `model`; one whose field is a list may be given again.
    Refuses with Invalid what it refuses, and another parameter that is given again."""
    if not request.scope["query_string"]:
        given: dict[str, Any] = {}
    else:
        lists = {n for n, f in model.model_fields.items() if get_origin(f.annotation) is list}
        given = _given_once(request, lists)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise _invalid(error, in_query=True) from None


def _given_once(request: Request, lists: set[str]) -> dict[str, Any]:
    given: dict[str, Any] = {name: request.query_params.getlist(name) for name in lists}
    for name in request.query_params.keys() - lists:
        [given[name], *more] = request.query_params.getlist(name)
        if more:
            raise Invalid([{"parameter": name, "detail": "this may be given once"}])
    return {name: value for name, value in given.items() if value != []}


def refuse_query(request: Request) -> None:
    """Refuse with Invalid any query parameter: there is none here."""
    if request.scope["query_string"]:
        names = request.query_params.keys()
        raise Invalid(
            [{"parameter": name, "detail": _NO_PARAMETER} for name in names] or [_NO_QUERY]
        )


async def read_bytes(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """Return the body as it is. Refuses with 413 one over `most` bytes, 1 MiB unless said, with 415
    one that is compressed, and with 408 one that does not go on."""
    refuse_compressed(request)
    announced = request.headers.get("content-length", "0")
    # The connection stays open, and the server drops what still comes: closing it under a sender
    # resets it, and the answer is lost.
    too_large = HTTPException(413, f"a body has {most} bytes at the most")
    if not announced.isdecimal() or int(announced) > most:
        raise too_large
    body = bytearray()
    async for chunk in read_chunks(request):
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


def refuse_compressed(request: Request) -> None:
    """Refuse with 415 a body that would have to be unpacked first: a few bytes may become many."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "send the body as it is, without Content-Encoding")


async def read_chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it comes. Refuses with 408 one that pauses for too long, and closes the
    connection: what comes later could be anything."""
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout(BODY_S):
                chunk = await anext(chunks, None)
        except TimeoutError:
            detail = f"the body did not go on for {BODY_S:g} seconds; send the request again"
            raise HTTPException(408, detail, {"Connection": "close"}) from None
        if chunk is None:
            return
        yield chunk


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text, exactly. Refuses with BadInput what is not JSON (RFC 8259),
    and whole numbers that 64 bits do not hold: orjson would round them without a word."""
    try:
        value = orjson.loads(body)
        # 19 digits in a row have one at each 19th place: most bodies are done with at this look.
        if _DIGIT.search(body[18::19]) and _LONG_NUMBER.search(body):
            json.loads(body, parse_int=_exact)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise BadInput("the body is nested too deeply") from None
    return value


def _exact(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise BadInput(
            "the body holds a whole number of more than 64 bits, which would be rounded; send it as"
            " a string"
        )
    return int(digits)


def dump_payload(value: object) -> bytes:
    """Return a JSON value as compact JSON. Refuses with BadInput one that is nested too deeply."""
    try:
        return orjson.dumps(value)
    except TypeError:
        raise BadInput("the payload is nested too deeply", field="payload") from None


def verbatim(data: bytes) -> Any:
    """Return stored JSON as a value that is sent as it is, without a look inside."""
    return orjson.Fragment(data)


def rfc_3339(at: int) -> str:
    """Return an instant in ms as `2026-11-30T08:00:00.000Z`."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def _invalid(error: ValidationError, *, in_query: bool) -> Invalid:
    details = error.errors(include_url=False, include_input=False)
    codes = {detail["type"] if detail["type"] in CODES else BadInput.code for detail in details}
    return Invalid(
        [_fault(detail, in_query=in_query) for detail in details],
        code=codes.pop() if len(codes) == 1 else BadInput.code,
    )


def _fault(detail: ErrorDetails, *, in_query: bool) -> Fault:
    text = _WORDS.get(detail["type"], detail["msg"])
    place = detail["loc"]
    if in_query:
        is_unknown = detail["type"] == "extra_forbidden"
        return {"parameter": str(place[0]), "detail": _NO_PARAMETER if is_unknown else text}
    # A refusal of the engine knows its field better than the model that asked it.
    if field := detail.get("ctx", {}).get("field"):
        in_list = place[:1] if place and isinstance(place[0], int) else ()
        place = (*in_list, *field.split("."))
    elif place[0] == "target":
        # Of what pydantic counts, the union's tag after `target` and the `[key]` after the name of
        # a header are no places in the body.
        place = ("target", *place[2:4])
    return {"pointer": pointer_to(*place), "detail": text}
