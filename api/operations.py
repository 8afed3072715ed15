"""Operations of the API: what each takes, gives and refuses, and who may ask for it.

A handler says its contract in a decorator; a row of the route table (routes.py) gives it a method,
a path and a scope. From the two come the routes, the check of who asks, and the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.access import admit
from api.backend import backend_of
from api.idempotency import HEADER, once
from api.problems import guarded
from api.wire import refuse_query
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
    takes_too: tuple[str, ...] = ()
    """Media types of texts that are taken in its place."""
    query: type[BaseModel] | None = None
    gives: Any = None
    """The type of the answer's body; None for an answer without one."""
    yields: str = "application/json"
    """The media type of the answer."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses that are no refusal, with the same body (204 and 304: with none)."""
    refuses: tuple[str, ...] = ()
    """Codes of refusals beyond those that any operation of its kind has."""
    heeds: tuple[str, ...] = ()
    """Request headers that it looks at."""
    headers: tuple[str, ...] = ()
    """Headers of its answers."""
    is_open: bool = False
    """Whether the answer is a stream that ends when the caller or the server goes."""


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
    by_group: bool = False
    """Whether a key restricted to groups may ask, too: the handler then keeps to those groups."""

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
            await admit(request, self.scope, by_group=self.by_group)
            backend_of(request).refuse_frozen(self.scope)
            backend_of(request).door.refuse_own_calls(request, self.scope)
            if self.handler.contract.query is None:
                refuse_query(request)
            if request.method == "POST" and HEADER in request.headers:
                return guarded(await once(request, self.handler))
            return guarded(await self.handler(request))

        path = self.path.replace("{execution_id}", "{execution_id:execution}")
        return Route(path, endpoint, methods=[self.method], name=self.name)


class _ExecutionConvertor(StringConvertor):
    """What can be an execution's id at all, so that `/v1/dead/redrive` is nobody's letter."""

    regex = "[^/]*@[^/]*"


register_url_convertor("execution", _ExecutionConvertor())
