"""Operations of the API: what each takes, gives and refuses, and who may ask for it.

A handler says its contract in a decorator; a row of the route table (routes.py) gives it a method,
a path and a scope. From the two come the routes, the check of who asks, and the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.access import admit
from engine.access import Scope

Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Contract:
    """What a handler takes, gives and refuses."""

    body: Any = None
    """The type of the body: a pydantic model, or a list of one."""
    may_be_empty: bool = False
    """Whether the body need not be sent."""
    takes: str = "application/json"
    """The media type of the body."""
    query: type[BaseModel] | None = None
    gives: Any = None
    """The type of the answer's body; None for an answer without one."""
    yields: str = "application/json"
    """The media type of the answer."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses that are no refusal, with the same body (204: with none)."""
    refuses: tuple[str, ...] = ()
    """Codes of refusals beyond those that any operation has."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that answers requests, with its contract. Called, it is that function."""

    answer: Answer
    contract: Contract

    async def __call__(self, request: Request) -> Response:
        return await self.answer(request)


def contract(**said: Any) -> Callable[[Answer], Handler]:
    """Return the decorator that gives a handler its contract; `said` are fields of Contract."""
    return lambda answer: Handler(answer, Contract(**said))


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the route table."""

    method: str
    path: str
    scope: Scope | None
    """What a caller needs; None for what anyone may ask."""
    handler: Handler

    @property
    def part(self) -> str:
        """The part of the API that it belongs to: the name of its handler's module."""
        return self.handler.answer.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """Unique and stable: what a generated client calls it."""
        return f"{self.part}_{self.handler.answer.__name__}"

    def route(self) -> Route:
        """Return the route that answers it."""

        async def endpoint(request: Request) -> Response:
            admit(request, self.scope)
            return await self.handler(request)

        return Route(self.path, endpoint, methods=[self.method], name=self.name)
