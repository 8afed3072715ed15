"""`waterclock up`: everything on one machine, in one Python process beside the server's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from rich.text import Text

from engine import __version__
from engine.cli.fleet import queues_of, url_of
from engine.cli.options import allow_shell, log_level, setting
from engine.cli.process import open_store, run_process
from engine.cli.show import cell, print_facts, print_line
from engine.clock import ServerClock
from engine.config import Config
from engine.embedded import EmbeddedServer, find_server
from engine.execution import Outcome, Record
from engine.logs import printable
from engine.loop import sleep_unless
from engine.store import Store
from engine.store.server import ServerInfo, check_server, time_ms
from engine.supervisor import Service, run_services

if TYPE_CHECKING:
    from api.echo import Echo

LOOK_MS = 100

log = logging.getLogger("waterclock.up")


@click.command()
@click.option("--demo", is_flag=True, help="Register four jobs and show what becomes of them.")
@setting("host", "--host")
@setting("port", "--port")
@setting("data_dir", "--data-dir", type=click.Path(path_type=Path))
@setting(
    "redis_url",
    "--redis-url",
    help="Use this server in place of an embedded one. [WATERCLOCK_REDIS_URL]",
)
@click.option(
    "--server-port",
    type=click.IntRange(1, 65_535),
    help="Let consumers reach the embedded server on this port of 127.0.0.1, too.",
)
@allow_shell
@log_level("warning")
def up(demo: bool, server_port: int | None, **options: object) -> None:
    """Run everything: server, scheduler, worker and API.

    Ctrl-C lets running work end and stops all in order; a second one ends the process at once.
    What was registered is kept in the data directory and goes on at the next start.
    """
    config = Config.from_env(**options)
    if config.public_url is None and config.port:
        config = config.model_copy(update={"public_url": url_of(config.host, config.port)})
    if "redis_url" not in config.model_fields_set:
        binary = find_server(config.server_bin)
        with EmbeddedServer(config.data_dir, binary=binary, port=server_port) as server:
            config = config.model_copy(update={"redis_url": server.url})
            run_process(lambda stop: _run(config, stop, demo, server))
    elif server_port is not None:
        raise click.UsageError("--server-port and --redis-url exclude each other")
    else:
        run_process(lambda stop: _run(config, stop, demo, None))


async def _run(
    config: Config, stop: asyncio.Event, demo: bool, server: EmbeddedServer | None
) -> None:
    echo = _echo() if demo else None
    if echo:
        allowed = ",".join(filter(None, (config.allow_hosts, echo.place)))
        config = config.model_copy(update={"allow_hosts": allowed})
    store = await open_store(config, stop)
    if store is None:
        return
    async with store:
        clock = ServerClock()
        clock.sample(await time_ms(store.client))
        services = _services(store, clock, server, echo, await check_server(store.client))
        if echo:
            services = await _with_demo(store, clock.now_ms(), services, echo)
        await run_services(services, stop, config.shutdown_ms)


def _services(
    store: Store,
    clock: ServerClock,
    server: EmbeddedServer | None,
    echo: Echo | None,
    kind: ServerInfo,
) -> list[Service]:
    """Return what runs, in the order of starting; it stops in the reverse one."""
    from engine.roles import all_services

    config = store.config
    return [
        *([ServerKeeper(server)] if server else []),
        *all_services(store, clock, queues_of(config), config.worker_concurrency),
        ApiService(store, clock, lambda port: _print_banner(config, port, kind, server, echo)),
    ]


def _echo() -> Echo:
    from api.echo import Echo

    return Echo()


async def _with_demo(store: Store, now: int, services: list[Service], echo: Echo) -> list[Service]:
    from engine.demo import AttemptFeed, install_demo

    await install_demo(store, echo.url, now)
    return [echo, *services, AttemptFeed(store, print_attempt)]


class ServerKeeper:
    """Starts the embedded server again when it has died; loses nothing that it had on disk."""

    name = "server-keeper"

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    async def run(self, stop: asyncio.Event) -> None:
        """Look after the server until `stop`. Raises Unusable if it does not come up again."""
        while not stop.is_set():
            if not self._server.alive():
                log.warning("the embedded server has ended; starting it again")
                await asyncio.to_thread(self._server.start)
            await sleep_unless(stop, LOOK_MS)


class ApiService:
    """The HTTP API on the store of this process."""

    name = "api"

    def __init__(
        self, store: Store, clock: ServerClock, on_listening: Callable[[int], None]
    ) -> None:
        self._store, self._clock, self._on_listening = store, clock, on_listening

    async def run(self, stop: asyncio.Event) -> None:
        """Answer requests until `stop`. Raises Unusable if the port is taken."""
        from api.server import serve

        await serve(
            self._store.config,
            stop,
            store=self._store,
            clock=self._clock,
            on_listening=self._on_listening,
        )


def _print_banner(
    config: Config,
    port: int,
    kind: ServerInfo,
    server: EmbeddedServer | None,
    echo: Echo | None,
) -> None:
    where = f"data in {server.data_dir}" if server else f"at {_place(config.redis_url)}"
    print_line(Text(f"Waterclock {__version__}", style="bold"))
    print_facts(
        [
            ("API", url_of(config.host, port)),
            ("server", f"{kind.name} {kind.version}, {where}"),
            *([("echo", echo.url)] if echo else []),
            ("stop", "Ctrl-C"),
        ]
    )


def _place(url: str) -> str:
    """Return where a server is, without the password that its URL may hold."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]


def print_attempt(ended_at: int, job_id: str, record: Record) -> None:
    """Print one line: when the attempt ended, whose it was, how late it began, how it went."""
    ended, nominal = _time_of_day(ended_at)[:-4], _time_of_day(record.nominal_at)
    lag_ms = record.started_at - record.nominal_at
    line = Text(f"{ended}  {job_id:17} for {nominal}  lag {lag_ms:4} ms  ")
    line.append(f"attempt {record.attempt}  ", style="dim")
    line.append(cell(record.outcome))
    if record.outcome is not Outcome.SUCCEEDED:
        line.append(f"  {printable(record.error or str(record.status_code))}")
    print_line(line)


def _time_of_day(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
