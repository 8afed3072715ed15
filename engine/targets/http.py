"""The http target: POST the payload, and let the status decide.

2xx is success. 408, 425, 429, 5xx, a timeout and a broken connection may pass, so they are tried
again; any other status is final: the same request would be refused again.

Redirects are followed as often as the job allows, and only 307 and 308, which repeat the request.
301, 302 and 303 have become a GET in practice: the target would be called without its payload, and
that would count as success.

Nothing that a target does is unbounded. Its status decides; of the body no more is read than an
error's excerpt needs, or than lets the connection be kept, and not for long. Bodies are never
decompressed. No text holds a URL or a header's value: they may be secret.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.http import HttpProcessingError
from yarl import URL  # aiohttp's own: what is compared here is what is called there

from engine import codec
from engine.clock import Clock, ServerClock
from engine.errors import BadInput
from engine.execution import Delivery, ErrorKind
from engine.guard import Guard
from engine.model import MAX_RESULT_BYTES, HttpTarget
from engine.store import Store
from engine.targets import Attempted, failed, time_allowed
from engine.targets.connections import NotAllowed
from engine.targets.deadlines import Late
from engine.targets.exchange import Answer, Exchange
from engine.targets.outgoing import Composer, NotSent, Outgoing

RETRIED = frozenset({408, 425, 429})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REPEATING = frozenset({307, 308})
"""Redirects that keep method and body."""

EXCERPT_BYTES = 2_048
EXCERPT_S = 1.0
"""How long an error's body is waited for."""
SPARED_BYTES = 65_536
SPARED_S = 0.1
"""A success's body that is no longer, and is there in this time, is read, so that the connection
can be used again; of any other the connection is closed."""
RESULT_HEADER = "Waterclock-Result"
"""With the value `body`, in a success's head: the body is what the execution gives."""


class _NotFollowed(Exception):
    """A redirect, and why it is the end."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.attempted = failed(
            ErrorKind.REDIRECT, f"HTTP {status}, {why}", status_code=status, is_final=True
        )


class HttpRunner:
    """Calls HTTP targets over kept connections. Use it inside a running event loop.

    `guard` says which addresses it may connect to: public ones, without one.
    `callback_url` gives the URL on which a target reports the end of what it has promised to do; a
    runner without one cannot call targets that respond later. `store` is where it looks for what
    signs a call, and for what a template asks of a job's history.
    """

    def __init__(
        self,
        version: str,
        *,
        guard: Guard | None = None,
        resolver: AbstractResolver | None = None,
        clock: Clock | None = None,
        callback_url: Callable[[Delivery], str] | None = None,
        store: Store | None = None,
    ) -> None:
        self._clock = clock or ServerClock()
        self._composer = Composer(self._clock, callback_url, store)
        self._callback_url = callback_url
        self._exchange = Exchange(version, guard or Guard(), resolver)

    async def close(self) -> None:
        await self._exchange.close()

    async def run(self, delivery: Delivery) -> Attempted:
        """POST the payload of a delivery to its target; return how that went."""
        target = codec.load_target(delivery.target)
        if not isinstance(target, HttpTarget):
            return failed(
                ErrorKind.INTERNAL,
                "this worker runs http targets only; use another queue",
                is_final=True,
            )
        if target.respond_async and self._callback_url is None:
            return failed(ErrorKind.INTERNAL, "this worker knows no URL for a later response")
        allowed_ms, late = time_allowed(delivery, target.timeout_ms, self._clock.now_ms())
        if allowed_ms <= 0:
            return failed(late, "none of it was left", is_final=True)
        until = asyncio.get_running_loop().time() + allowed_ms / 1000
        try:
            answer = await self._ask(delivery, target, until)
        except (_NotFollowed, NotSent) as end:
            return end.attempted
        except Late:
            is_final = late is ErrorKind.DEADLINE
            return failed(late, f"no answer within {allowed_ms} ms", is_final=is_final)
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
            return _failure(error)
        try:
            return await self._judge(answer, until, is_async=target.respond_async)
        finally:
            answer.release()  # closes the connection unless the body has been read to its end

    async def _ask(self, delivery: Delivery, target: HttpTarget, until: float) -> Answer:
        """Return the first answer that is no redirect. Raises _NotFollowed for one too many, or one
        that must not be followed; and Late."""
        sent = await self._compose(delivery, target, until)
        url: str | URL = sent.url
        theirs, followed = sent.theirs, 0
        while True:
            answer = await self._exchange.post(url, theirs, sent.ours, sent.body, until)
            if answer.status not in REDIRECTS:
                return answer
            answer.release()
            there = _place(answer)
            if followed == target.follow_redirects:
                raise _NotFollowed(answer.status, f"and this job follows {followed}")
            if there.origin() != answer.url.origin():
                theirs = {}  # for good: a way back was chosen by somebody else
            url, followed = there, followed + 1

    async def _compose(self, delivery: Delivery, target: HttpTarget, until: float) -> Outgoing:
        if not target.template and target.signing is None:  # nothing that has to be looked up
            return await self._composer.compose(delivery, target)
        try:
            async with asyncio.timeout_at(until):
                return await self._composer.compose(delivery, target)
        except TimeoutError:
            raise Late from None

    async def _judge(self, answer: Answer, until: float, *, is_async: bool) -> Attempted:
        """Return what an answer comes to. Its status decides, however its body goes on."""
        status = answer.status
        if 200 <= status < 300:
            if answer.headers.get(RESULT_HEADER, "").strip().lower() == "body":
                return await _take_result(answer, until)
            if not answer.body.is_eof():
                await _read(answer, SPARED_BYTES, SPARED_S, until)
            return Attempted(True, status, accepted=is_async and status == 202)
        excerpt = (await _read(answer, EXCERPT_BYTES, EXCERPT_S, until)).decode("utf-8", "replace")
        return Attempted(
            False,
            status,
            f"HTTP {status}: {excerpt}".rstrip(": "),
            is_final=status < 500 and status not in RETRIED,
            kind=ErrorKind.STATUS,
            retry_after_ms=_retry_after_ms(answer, self._clock.now_ms()),
        )


async def _read(answer: Answer, most: int, within_s: float, until: float) -> bytes:
    """Return the first `most` bytes of a body, as far as they come within the time that is given,
    and before `until`."""
    body = bytearray()
    by = min(until, asyncio.get_running_loop().time() + within_s)
    try:
        async with asyncio.timeout_at(by):
            while len(body) < most and (chunk := await answer.body.read(most)):
                body += chunk
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # too slow, or broken off; the status has come
    return bytes(body[:most])


async def _take_result(answer: Answer, until: float) -> Attempted:
    """Return a success whose body is what it gives. It counts only when all of it is there."""
    left_s = until - asyncio.get_running_loop().time()
    body = await _read(answer, MAX_RESULT_BYTES + 1, left_s, until)
    if not answer.body.at_eof() and len(body) <= MAX_RESULT_BYTES:
        return failed(ErrorKind.CONNECTION, "broken off before the result was there")
    with suppress(BadInput, ValueError):
        if len(body) <= MAX_RESULT_BYTES:
            gave = codec.dump_result(codec.load_json(body))
            return Attempted(True, answer.status, gave=gave)
    why = f"the body is no JSON of {MAX_RESULT_BYTES} bytes at the most"
    return failed(ErrorKind.RESULT, why, status_code=answer.status, is_final=True)


def _place(answer: Answer) -> URL:
    """Return where a redirect leads. Raises _NotFollowed where it must not be followed."""
    status, here = answer.status, answer.url
    if status not in REPEATING:
        raise _NotFollowed(status, "which drops the payload; only 307 and 308 are followed")
    try:
        there = here.join(URL(answer.headers["Location"]))
    except (KeyError, ValueError):
        raise _NotFollowed(status, "without a place that can be read") from None
    if there.scheme not in ("http", "https") or not there.host or there.user or there.password:
        raise _NotFollowed(status, "to a place that cannot be called")
    if here.scheme == "https" and there.scheme == "http":
        raise _NotFollowed(status, "from https to http")
    return there


def _retry_after_ms(answer: Answer, now: int) -> int | None:
    """Return how long a target asks to be left alone (RFC 9110, 10.2.3), None if it does not ask,
    or not in words that can be read."""
    text = answer.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text) * 1000
    try:
        at = parsedate_to_datetime(text)
        # A date that names no zone is UTC.
        at_ms = int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return max(0, at_ms - now)


def _failure(error: Exception) -> Attempted:
    """Return the attempt that ended in an error, without the URL, which may hold a secret."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return failed(ErrorKind.DNS, error.os_error.strerror or "no answer")
        case aiohttp.ClientConnectorCertificateError():
            reason = str(getattr(error.certificate_error, "verify_message", "not accepted"))
            # What follows a comma names the host.
            return failed(ErrorKind.TLS, f"certificate: {reason.partition(',')[0]}")
        case aiohttp.ClientSSLError():
            return failed(ErrorKind.TLS, f"no handshake: {_reason(error.os_error)}")
        case HttpProcessingError():
            return failed(ErrorKind.PROTOCOL, "the answer is not HTTP, or its head is too large")
        case aiohttp.ServerDisconnectedError():
            return failed(ErrorKind.CONNECTION, "closed without an answer")
        case aiohttp.ClientConnectorError(os_error=NotAllowed() as refusal):
            return failed(ErrorKind.ADDRESS, str(refusal), is_final=refusal.is_final)
        case aiohttp.ClientConnectorError():
            return failed(ErrorKind.CONNECTION, f"cannot connect: {_reason(error.os_error)}")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | ValueError():
            return failed(ErrorKind.URL, "it cannot be called with this request", is_final=True)
    return failed(ErrorKind.CONNECTION, _reason(error))


def _reason(error: Exception) -> str:
    # The text of an error may hold an address; that of its number does not.
    if isinstance(error, ssl.SSLError):
        return error.reason or "broken off"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return type(error).__name__
