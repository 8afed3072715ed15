"""The http target: POST the payload, and let the status decide.

2xx is success. 408, 425, 429, 5xx, a timeout and a broken connection may pass, so they are tried
again; any other status is final: the same request would be refused again. Redirects are not
followed. The answer's body is read only as far as the error excerpt needs.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import aiohttp

from engine import codec
from engine.model import Delivery, HttpTarget
from engine.targets import Attempted

RETRIED = frozenset({408, 425, 429})
EXCERPT_BYTES = 2_048
MAX_HEADER_BYTES = 16_384
KEEP_ALIVE_S = 1.5
"""Shorter than what common servers keep an idle connection for (2 to 75 s): a request that meets a
connection just being closed would fail an attempt for nothing."""


class HttpRunner:
    """Calls HTTP targets over kept connections. Use it inside a running event loop."""

    def __init__(self, version: str) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=10, keepalive_timeout=KEEP_ALIVE_S
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a small answer can unpack to a huge one
            trust_env=False,  # a proxy or .netrc of the machine is not the job's
            headers={"User-Agent": f"waterclock/{version}", "Accept-Encoding": "identity"},
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    async def close(self) -> None:
        await self._session.close()

    async def run(self, delivery: Delivery) -> Attempted:
        """POST the payload of a delivery to its target; return how that went."""
        target = codec.load_target(delivery.target)
        if not isinstance(target, HttpTarget):
            return Attempted(
                False, error="this worker runs http targets only; use another queue", is_final=True
            )
        try:
            async with asyncio.timeout(target.timeout_ms / 1000):
                return await self._post(delivery, target)
        except TimeoutError:
            return Attempted(False, error=f"timeout: no answer within {target.timeout_ms} ms")
        except aiohttp.InvalidURL:
            return Attempted(False, error="url: it cannot be called", is_final=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Attempted(False, error=f"connection: {_describe(error)}")

    async def _post(self, delivery: Delivery, target: HttpTarget) -> Attempted:
        headers = {**target.headers, **_headers_for(delivery)}
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        async with self._session.post(
            target.url,
            data=delivery.payload,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),  # one clock: run's
        ) as answer:
            status = answer.status
            if 200 <= status < 300:
                return Attempted(True, status)
            try:
                excerpt = (await answer.content.read(EXCERPT_BYTES)).decode("utf-8", "replace")
            except aiohttp.ClientError:
                excerpt = ""  # broken off; the status has come
        is_final = status < 500 and status not in RETRIED
        return Attempted(False, status, f"HTTP {status}: {excerpt}".rstrip(": "), is_final)


def _headers_for(delivery: Delivery) -> dict[str, str]:
    """Return what a target needs to know an execution by, and to do its work once."""
    nominal = datetime.fromtimestamp(delivery.nominal_at / 1000, UTC)
    return {
        "Idempotency-Key": delivery.execution_id,
        "Waterclock-Job": delivery.job_id,
        "Waterclock-Scheduled-For": nominal.isoformat(timespec="milliseconds").replace(
            "+00:00", "Z"
        ),
        "Waterclock-Attempt": str(delivery.attempt),
    }


def _describe(error: Any) -> str:
    """Return what went wrong without the URL, which may hold a secret."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or type(error.os_error).__name__}"
    return type(error).__name__
