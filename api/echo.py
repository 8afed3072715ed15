"""A target to look at: what the demo's jobs call.

POST /       200, with what was sent
POST /flaky  503 for the first two attempts of an execution, then as above
"""

from __future__ import annotations

import asyncio
import json

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from api.server import listen, serve_app

GOOD_ATTEMPT = 3
"""The first attempt that the flaky path answers well."""


async def _echo(request: Request) -> Response:
    return JSONResponse(
        {
            "execution_id": request.headers.get("Idempotency-Key"),
            "attempt": _attempt(request),
            "payload": json.loads(await request.body() or b"null"),
        }
    )


async def _flaky(request: Request) -> Response:
    if _attempt(request) < GOOD_ATTEMPT:
        return JSONResponse({"detail": f"not before attempt {GOOD_ATTEMPT}"}, status_code=503)
    return await _echo(request)


def _attempt(request: Request) -> int:
    return int(request.headers.get("Waterclock-Attempt", "1"))


app = Starlette(
    routes=[Route("/", _echo, methods=["POST"]), Route("/flaky", _flaky, methods=["POST"])]
)


class Echo:
    """The application on a loopback port of its own, from its making to the end of `run`."""

    name = "echo"

    def __init__(self) -> None:
        # Calls that come before `run` wait in the socket's backlog.
        self._listener = listen("127.0.0.1", 0)
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        """Host and port: all of loopback that the demo lets its workers call."""
        self.url = f"http://{self.place}/"

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        with self._listener:
            # By default idle connections end after 5 s: just when the next call comes.
            await serve_app(app, self._listener, stop, timeout_keep_alive=60)
