"""Storage: the only code that talks to Redis. Functions are named after their script in lua/.

Reading order: connection (clients), server (what kind it is), then jobs and changes (to them),
search and groups, due, leases, executions and outcomes, letters, history and recent; gates and
limits; dependencies, registering and outbox; calendars, zones, backfills; freezing and transfer/
(moves to another server); processes, fleet, facts, tail, stats and audit (how a deployment stands).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine import codec
from engine.config import Config
from engine.errors import Unusable
from engine.keys import LAYOUT, LAYOUT_VERSION, Layout, spread_tags
from engine.plan import NO_CALENDARS, Calendars, Plan
from engine.scripts import Scripts
from engine.store.connection import connect
from engine.store.phase import refuse_frozen
from engine.store.server import check_server

if TYPE_CHECKING:
    from engine.store.limits import Limits
    from engine.store.zones import Walk

BLOCK_MS = 500
"""How long a read waits for work: also the longest that a stopping worker waits for its read."""


@dataclass(slots=True)
class Store:
    """A connection to one deployment: clients, scripts, layout, and the limits that scripts get.

    `reader` is for blocking reads alone. Both are `redis.asyncio.Redis`, whose annotations do not
    know that replies are bytes here. Close it when done, or use it with `async with`.
    """

    client: Any
    reader: Any
    scripts: Scripts
    layout: Layout
    config: Config
    plans: dict[str, Plan] = field(default_factory=dict)
    """Plans by id, as far as they were read. A plan never changes."""
    signing_key: bytes | None = field(default=None, repr=False)
    """What signs promises of targets, once it was read (see reports.py)."""
    calendars: Calendars = NO_CALENDARS
    """The calendars when they were last looked at (see snapshot.py)."""
    starts: list[int] = field(default_factory=list)
    """The newest starts of the deployment, oldest first, when they were last looked at (see
    leases.py)."""
    walks: dict[int, Walk] = field(default_factory=dict)
    """By shard, the walks of this process through what new rules of zones move (see zones.py)."""
    limits: tuple[float, Limits] | None = None
    """The limits when they were last looked at, and that (monotonic) time (see limits.py)."""
    fair: set[str] = field(default_factory=set)
    """Queues that this process has made fair, or seen to be (see limits.py)."""

    @classmethod
    async def open(cls, config: Config, *, even_frozen: bool = False) -> Store:
        """Connect, check the server, and read the layout (or write it, if this is the first
        process).

        Raises Unusable for an unfit server, another layout version, or a deployment that is moving
        or has moved, unless that is what the caller is here for; and the driver's errors when there
        is no server to reach.
        """
        client = connect(config.redis_url)
        try:
            await check_server(client)
            if not even_frozen:
                await refuse_frozen(client)
            layout = await _read_layout(client, config.shards)
        except BaseException:
            await client.aclose()
            raise
        reader = connect(config.redis_url, block_ms=BLOCK_MS)
        return cls(client, reader, Scripts(client), layout, config)

    async def close(self) -> None:
        await self.reader.aclose()
        await self.client.aclose()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def max_ready(self) -> int:
        """The most entries of one queue in one shard."""
        return max(1, self.config.max_ready // len(self.layout.shards))


async def _read_layout(client: Any, shards: int) -> Layout:
    await client.set(LAYOUT, codec.dump_layout(Layout(spread_tags(shards))), nx=True)
    version, layout = codec.load_layout(await client.get(LAYOUT))
    if version != LAYOUT_VERSION:
        raise Unusable(
            f"this server holds a deployment of layout version {version}, and this Waterclock"
            f" speaks version {LAYOUT_VERSION}; have the release that wrote it export it to a file"
            " (`waterclock deployment export`), and import that into an empty server"
        )
    return layout
