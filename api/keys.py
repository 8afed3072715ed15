"""API keys over HTTP: make one, list them, rotate one, revoke one.

A key is in the answer that makes it, and in no other. The first one is made with `waterclock keys
create`, which asks the server and not the API.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.rules import in_full
from api.taken import Taken
from api.wire import JsonResponse, read_body, rfc_3339
from engine.access import (
    DEFAULT_OVERLAP_MS,
    LONGEST_LIFE_MS,
    MOST,
    MOST_GROUPS,
    MOST_NAME_CHARS,
    ApiKey,
    Quotas,
    Scope,
)
from engine.errors import NotFound
from engine.names import QUEUE
from engine.store.api_keys import (
    create_api_key,
    list_api_keys,
    revoke_api_key,
    rotate_api_key,
)

_ID = re.compile(r"[0-9a-f]{16}")


class CreateKey(Taken):
    """The body of `POST /v1/keys`."""

    name: str = Field(min_length=1, max_length=MOST_NAME_CHARS)
    """Whose key it is, or what for: for people."""
    scopes: list[Literal["read", "write", "worker", "admin"]] = Field(
        min_length=1, max_length=len(Scope)
    )
    groups: (
        Annotated[
            list[Annotated[str, Field(pattern=in_full(QUEUE))]],
            Field(min_length=1, max_length=MOST_GROUPS),
        ]
        | None
    ) = None
    """Groups whose jobs are all that there is for this key; goes with the scopes read and write."""
    expires_in_ms: int | None = Field(None, ge=1, le=LONGEST_LIFE_MS)
    rate: float | None = Field(None, ge=0.01, le=MOST)
    """Requests a second, in each API process."""
    burst: int | None = Field(None, ge=1, le=MOST)
    """Requests that may come at once; by default those of a second."""
    max_jobs: int | None = Field(None, ge=0, le=MOST)
    """Jobs that the groups have together."""
    max_payload_bytes: int | None = Field(None, ge=0, le=MOST)
    """Bytes that the payloads of the groups' jobs have together."""

    def to_quotas(self) -> Quotas:
        return Quotas(self.rate, self.burst, self.max_jobs, self.max_payload_bytes)


class RotateKey(Taken):
    """The body of `POST /v1/keys/{key_id}/rotate`, which need not be sent."""

    overlap_ms: int = Field(DEFAULT_OVERLAP_MS, ge=0, le=LONGEST_LIFE_MS)
    """How long the old key is good beside the new one."""


class KeyOut(TypedDict):
    key_id: str
    name: str
    scopes: list[str]
    groups: list[str] | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """To the minute; null for one that was not used yet."""
    rotated_from: str | None
    rate: float | None
    burst: int | None
    max_jobs: int | None
    max_payload_bytes: int | None


class NewKeyOut(KeyOut):
    key: str
    """What is sent as `Authorization: Bearer …`."""


class KeysOut(TypedDict):
    keys: list[KeyOut]


@contract(body=CreateKey, gives=NewKeyOut, status=201, refuses=("conflict",))
async def create(request: Request) -> Response:
    """Make a key: 201 with the key itself, which no other answer holds. It is good within a second
    everywhere."""
    backend = backend_of(request)
    body = await read_body(request, CreateKey)
    made, text = await create_api_key(
        backend.store,
        backend.clock.now_ms(),
        name=body.name,
        scopes=map(Scope, body.scopes),
        groups=body.groups,
        expires_in_ms=body.expires_in_ms,
        quotas=body.to_quotas(),
    )
    return _new_key(request, made, text)


@contract(gives=KeysOut)
async def index(request: Request) -> Response:
    """Answer all keys, the oldest first, without what proves them. One that has expired is listed
    for 30 days more."""
    found = await list_api_keys(backend_of(request).store)
    return JsonResponse({"keys": [key_out(key, used_at) for key, used_at in found]})


@contract(status=204)
async def revoke(request: Request) -> Response:
    """Make a key worthless, everywhere within a second."""
    backend = backend_of(request)
    await revoke_api_key(backend.store, _id_of(request), backend.clock.now_ms())
    backend.gate.forget()
    return Response(status_code=204)


@contract(body=RotateKey, may_be_empty=True, gives=NewKeyOut, status=201, refuses=("conflict",))
async def rotate(request: Request) -> Response:
    """Make a key of the same rights and as long a life in the place of another: 201 with the key.
    The old one is good for `overlap_ms` more."""
    backend, key_id = backend_of(request), _id_of(request)
    body = await read_body(request, RotateKey, may_be_empty=True)
    now = backend.clock.now_ms()
    made, text = await rotate_api_key(backend.store, key_id, now, overlap_ms=body.overlap_ms)
    return _new_key(request, made, text)


def key_out(key: ApiKey, used_at: int | None) -> KeyOut:
    return {
        "key_id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "groups": None if key.groups is None else sorted(key.groups),
        "created_at": rfc_3339(key.created_at),
        "expires_at": None if key.expires_at is None else rfc_3339(key.expires_at),
        "last_used_at": None if used_at is None else rfc_3339(used_at),
        "rotated_from": key.rotated_from,
        "rate": key.quotas.rate,
        "burst": key.quotas.burst,
        "max_jobs": key.quotas.max_jobs,
        "max_payload_bytes": key.quotas.max_payload_bytes,
    }


def _new_key(request: Request, made: ApiKey, text: str) -> Response:
    backend_of(request).gate.forget()
    shown: NewKeyOut = {**key_out(made, None), "key": text}
    return JsonResponse(shown, 201, {"Cache-Control": "no-store"})


def _id_of(request: Request) -> str:
    """Return the id in the path. Refuses with NotFound what no key can be called."""
    key_id: str = request.path_params["key_id"]
    if not _ID.fullmatch(key_id):
        raise NotFound("there is no key of this id")
    return key_id
