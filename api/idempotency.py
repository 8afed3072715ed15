"""Idempotency-Key: a POST that is sent again is carried out once, and answered as it was.

The answer is kept under the caller's key, sealed with that key: whoever reads the server's memory
cannot read an answer, which may have shown a secret once. Refusals are not kept: they changed
nothing. Where a process dies between the work and the answer, the next one that is sent the request
carries it out again, knowing so (`is_again`); `POST /v1/jobs` then finds its own job.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from api.access import caller_of
from api.backend import backend_of
from api.wire import read_bytes
from engine.codec.sealing import seal, unseal
from engine.errors import BadInput, IdempotencyConflict, RequestInProgress
from engine.store.connection import TRANSIENT
from engine.store.idempotency import LEASE_MS, Standing, begin_request, end_request

HEADER = "idempotency-key"
REPLAYED = "Idempotency-Replayed"
MAX_BODY_BYTES = 8 * 1024 * 1024
"""Of a request with a key: it is read before it is begun."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
WAIT_MS = 5_000
"""How long a repeat waits for the one that is being carried out."""
LOOK_MS = 50

VALUE = re.compile(r'^"?([!#-\[\]-~](?:[ !#-\[\]-~]{0,254}))"?$')
_KEPT_HEADERS = ("content-type", "cache-control", "etag", "location", "link")

Answer = Callable[[Request], Awaitable[Response]]


async def once(request: Request, answer: Answer) -> Response:
    """Return the answer to a request, carrying it out unless one with its key was.

    Refuses with IdempotencyConflict a key that stands for another request, and with
    RequestInProgress one that is being carried out for longer than a repeat waits.
    """
    backend, key = backend_of(request), _key_of(request)
    caller = caller_of(request).name
    body = await read_bytes(request, MAX_BODY_BYTES)
    digest, fingerprint, nonce = _hash("name", caller, key), _print(request, body), _nonce()
    begun = await begin_request(backend.store, digest, fingerprint, nonce, backend.clock.now_ms())
    for _ in range(WAIT_MS // LOOK_MS):
        if begun.standing is not Standing.PENDING:
            break
        await asyncio.sleep(LOOK_MS / 1000)
        now = backend.clock.now_ms()
        begun = await begin_request(backend.store, digest, fingerprint, nonce, now)
    match begun.standing:
        case Standing.PENDING:
            raise RequestInProgress("this request is being carried out; send it again later")
        case Standing.CONFLICT:
            raise IdempotencyConflict(
                "this Idempotency-Key was sent with another request; choose a new one"
            )
        case Standing.ANSWERED:
            return _replayed(begun.answer, _seal_key(caller, key))
    request.state.random_id = _hash("id", caller, key)[:16]
    request.state.is_again = begun.standing is Standing.AGAIN
    return await _carry_out(request, answer, body, (digest, fingerprint, nonce), (caller, key))


async def _carry_out(
    request: Request,
    answer: Answer,
    body: bytes,
    lease: tuple[str, str, str],
    owner: tuple[str, str],
) -> Response:
    """Carry the request out, saying meanwhile that it goes on, and keep what is answered."""
    backend, (digest, fingerprint, nonce) = backend_of(request), lease
    work = asyncio.ensure_future(answer(_with_body(request, body)))
    try:
        while not (await asyncio.wait({work}, timeout=LEASE_MS / 3000))[0]:
            with suppress(*TRANSIENT):
                await begin_request(
                    backend.store, digest, fingerprint, nonce, backend.clock.now_ms()
                )
        response = await _in_full(work.result())
    except Exception:
        with suppress(*TRANSIENT):
            await end_request(backend.store, digest, nonce, b"")
        raise
    finally:
        work.cancel()
    kept = _dump(response) if len(response.body) <= MAX_ANSWER_BYTES else b""
    with suppress(*TRANSIENT):
        sealed = seal(_seal_key(*owner), kept) if kept else b""
        await end_request(backend.store, digest, nonce, sealed)
    return response


def random_id(request: Request) -> str | None:
    """Return what stands for chance in this request: the same when it is sent again with its key;
    None without one."""
    found: str | None = getattr(request.state, "random_id", None)
    return found


def is_again(request: Request) -> bool:
    """Return whether this request may have been carried out before, by a process that died."""
    return getattr(request.state, "is_again", False)


def _key_of(request: Request) -> str:
    found = VALUE.fullmatch(request.headers[HEADER])
    if not found or len(request.headers.getlist(HEADER)) > 1:
        raise BadInput("an Idempotency-Key is one text of 1 to 255 printable ASCII characters")
    return found[1]


def _print(request: Request, body: bytes) -> str:
    """Return what a request is known by: its path, its query, its type and its body."""
    kind = request.headers.get("content-type", "")
    return _hash(request.url.path, request.url.query, kind, hashlib.sha256(body).hexdigest())


def _hash(*parts: str) -> str:
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def _nonce() -> str:
    return secrets.token_hex(16)


def _seal_key(caller: str, key: str) -> bytes:
    return bytes.fromhex(_hash("seal", caller, key))


def _with_body(request: Request, body: bytes) -> Request:
    """Return the request with a body that was read already."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return parts.pop() if parts else await request.receive()

    return Request(request.scope, receive)


async def _in_full(response: Response) -> Response:
    """Return a response whose body is there: one that streams is gathered."""
    if not isinstance(response, StreamingResponse):
        return response
    body = bytearray()
    async for chunk in response.body_iterator:
        body += chunk.encode() if isinstance(chunk, str) else chunk
    return Response(bytes(body), response.status_code, dict(response.headers))


def _dump(response: Response) -> bytes:
    headers: Sequence[tuple[str, str]] = [
        (name, response.headers[name]) for name in _KEPT_HEADERS if name in response.headers
    ]
    head = orjson.dumps([response.status_code, headers])
    return zlib.compress(head + b"\n" + bytes(response.body))


def _replayed(sealed: bytes, key: bytes) -> Response:
    head, _, body = zlib.decompress(unseal(key, sealed)).partition(b"\n")
    status, headers = orjson.loads(head)
    # Nothing was created by this request.
    return Response(body, 200 if status == 201 else status, {**dict(headers), REPLAYED: "true"})
