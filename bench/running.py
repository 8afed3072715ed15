"""One run of one scenario: on a server of its own or on one that somebody names, and the result."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvloop

from bench.environment import describe, start_meter
from bench.result import Result
from bench.scenarios import load
from bench.stage import Stage
from engine.embedded import EmbeddedServer, find_server
from engine.errors import Unusable
from engine.store.connection import TRANSIENT, connect
from engine.store.server import check_server


def run_scenario(
    name: str,
    *,
    jobs: int | None = None,
    is_quick: bool = False,
    url: str | None = None,
    binary: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Result:
    """Return the result of a scenario, run on the server at `url`, or on one that is started for it
    and ended after it: `binary`, or the one that comes with the package.

    Raises Unusable if there is no such server, if it is not one for Waterclock, or, with `url`, if
    it is not empty. Such a server is empty again afterwards, also after a failure.
    """
    scenario = load(name)
    size = jobs or (scenario.quick_size if is_quick else scenario.size)
    with _server(url, binary, scenario.needs_persistence) as (at, own):
        stage = Stage(at, size, is_quick, own, dict(options or {}))
        return uvloop.run(_run(name, stage))


def find_binary(name: str | None) -> Path:
    """Return the server binary of this name or path, or without one that of the package. Raises
    Unusable if there is none."""
    if name is not None and shutil.which(name) is None:
        raise Unusable(f"{name!r} is not an executable file: name a Redis or Valkey server")
    return find_server(name)


async def _run(name: str, stage: Stage) -> Result:
    async with _emptied(stage):
        before = await start_meter(stage.url)
        metrics = await load(name).run(stage)
        return {
            "scenario": name,
            "jobs": stage.size,
            "is_quick": stage.is_quick,
            "metrics": {key: round(value, 3) for key, value in metrics.items()},
            "notes": stage.notes,
            "environment": await describe(stage, before),
        }


@contextmanager
def _server(
    url: str | None, binary: str | None, keeps: bool
) -> Iterator[tuple[str, EmbeddedServer | None]]:
    if url is not None:
        yield url, None
        return
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder,
        EmbeddedServer(
            Path(folder) / "data", binary=find_binary(binary), appendonly=keeps
        ) as server,
    ):
        yield server.url, server


@asynccontextmanager
async def _emptied(stage: Stage) -> AsyncIterator[None]:
    """Refuse a server of somebody else's that is of no use or not empty; empty it at the end."""
    if stage.server is not None:
        yield
        return
    # The URL may hold a password: it is not repeated.
    async with connect(stage.url) as client:
        try:
            await check_server(client)
            keys = await client.dbsize()
        except TRANSIENT as error:
            raise Unusable(f"no server answers at the given URL: {error}") from None
        if keys:
            raise Unusable(
                f"the database at the given URL is not empty, it has {keys:,} keys: a scenario"
                " needs one to itself, and empties it afterwards; name another (redis://HOST/1)"
            )
        try:
            yield
        finally:
            await client.flushdb(asynchronous=True)
