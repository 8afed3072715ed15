"""The API's listener: uvicorn in the caller's event loop, stopped by an event, not by signals."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.applications import Starlette

from api.app import create_app
from api.connections import MOST_CONNECTIONS, Connection
from engine.clock import SampledClock
from engine.config import Config
from engine.errors import Unusable
from engine.store import Store

BACKLOG = 2_048


async def serve(
    config: Config,
    stop: asyncio.Event,
    *,
    store: Store | None = None,
    clock: SampledClock | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
) -> None:
    """Answer requests on `config.host` and `config.port` until `stop` is set.

    Calls `on_listening` with the port, which the system chooses for port 0, once requests are
    answered. Running requests get `config.shutdown_ms` to end. Raises Unusable for an address that
    cannot be listened on, and for a server that is unfit.
    """
    app = create_app(config, store, clock)
    _allow_files(MOST_CONNECTIONS + 1_000)
    with listen(config.host, config.port) as listener:
        async with app.router.lifespan_context(app):
            await serve_app(
                app,
                listener,
                stop,
                on_started=lambda: on_listening(listener.getsockname()[1]),
                on_stopping=app.state.backend.end_waiting,
                http=Connection,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=math.ceil(config.shutdown_ms / 1000),
            )


async def serve_app(
    app: Starlette,
    listener: socket.socket,
    stop: asyncio.Event,
    *,
    on_started: Callable[[], None] = lambda: None,
    on_stopping: Callable[[], None] = lambda: None,
    **settings: Any,
) -> None:
    """Answer requests on a listening socket until `stop` is set; `settings` are uvicorn's.

    The application's lifespan is the caller's business.
    """
    config = uvicorn.Config(
        app, lifespan="off", ws="none", log_config=None, access_log=False, **settings
    )
    server = _Server(config, on_started)
    stopper = asyncio.create_task(_stop(server, stop, on_stopping), name="api-stop")
    try:
        await server.serve(sockets=[listener])
    finally:
        stopper.cancel()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would take Ctrl-C from the supervisor."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()


async def _stop(
    server: uvicorn.Server, stop: asyncio.Event, on_stopping: Callable[[], None]
) -> None:
    await stop.wait()
    on_stopping()
    server.should_exit = True


def _allow_files(wanted: int) -> None:
    """Have the process open so many files, as far as it may: a connection is one, and what a shell
    gives is often 1,024."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), most))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises Unusable, saying what to do. By hand, since uvicorn ends
    the process when it cannot listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off for no other socket; with it
    # every answer took 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        return listener
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Unusable(f"port {port} on {host} is in use; choose another with --port") from None
        raise Unusable(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; choose others with"
            " --host and --port"
        ) from None
