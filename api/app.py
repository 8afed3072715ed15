"""The application: routes, error handlers and the backend put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware

from api.backend import Backend
from api.limits import LimitHeaders
from api.problems import HANDLERS
from api.routes import ROUTES
from api.shaping import Shaper
from engine.access import ANYONE
from engine.clock import SampledClock
from engine.config import Config
from engine.store import Store


def create_app(
    config: Config, store: Store | None = None, clock: SampledClock | None = None
) -> Starlette:
    """Return the API as an ASGI application.

    Its lifespan opens the store that `config` names, unless one is given, which stays the caller's
    to close. With no server to reach it starts all the same, answers 503, and keeps trying; with an
    unfit one its start raises Unusable, and so it does where keys are asked for and there is none.
    """
    backend = Backend(config, store, clock)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with backend:
            yield

    app = Starlette(
        routes=ROUTES,
        exception_handlers=HANDLERS,
        lifespan=lifespan,
        middleware=[Middleware(LimitHeaders)] if backend.gate.asks_for_keys else [],
    )
    app.router.redirect_slashes = False
    app.state.backend = backend
    app.state.shaper = Shaper(backend, ANYONE)
    return app
