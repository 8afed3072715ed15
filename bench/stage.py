"""What a scenario runs on: a server, how much of it, and the settings of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.store import Store

PAYLOAD = b'"' + b"x" * 98 + b'"'
"""100 bytes, what all scenarios give a job."""

Metrics = dict[str, float]
"""Name → figure; the unit is in the name (`bench/units.py` reads it there)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A server to measure on, empty when the scenario begins, and how much to do there.

    `server` is there if the harness started it, so that a scenario may kill it and start it again;
    with a URL of somebody else's it is None. `options` are those that the scenario asked for, where
    they were given. What it has to say beside its figures goes into `notes`, and with them into the
    result: JSON, such as settings of its own, or a list of records by name.
    """

    url: str
    size: int
    is_quick: bool
    server: EmbeddedServer | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """The engine's settings that were asked for and are not the defaults; `config` fills it in."""

    def config(self, **changes: Any) -> Config:
        """Return settings for this server, with room in the queues for all of the jobs: scenarios
        measure the path, not the brake."""
        config = Config(redis_url=self.url, **{"max_ready": 100 * self.size + 10_000, **changes})
        self.settings.update(
            config.model_dump(mode="json", exclude_defaults=True, exclude={"redis_url"})
        )
        return config

    @asynccontextmanager
    async def store(self, **changes: Any) -> AsyncIterator[Store]:
        """Open a store with these settings."""
        async with await Store.open(self.config(**changes)) as store:
            yield store


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as the command line knows it: `size` jobs in a full run, `quick_size` in one of
    under half a minute."""

    run: Callable[[Stage], Awaitable[Metrics]]
    size: int
    quick_size: int
    needs_persistence: bool = False
    """Whether the server that the harness starts keeps an append-only file."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of its own: name → what it is. `{"only": "…"}` makes `--only TEXT`."""
