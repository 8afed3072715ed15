"""`waterclock scheduler | worker | api`: one process of a fleet, against a server that runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import click

from engine.cli.options import allow_shell, log_level, setting
from engine.cli.process import open_store, run_process
from engine.clock import SampledClock, ServerClock
from engine.config import Config
from engine.names import SHELL_QUEUE
from engine.reading import parse_queues
from engine.store import Store
from engine.supervisor import Service, run_services

log = logging.getLogger("waterclock.api")


@click.command()
@setting("redis_url", "--redis-url")
@log_level("info")
def scheduler(**options: object) -> None:
    """Fire due jobs. Any number may run: they share the work out among them."""
    from engine.roles import scheduler_services

    _run_on_store(Config.from_env(**options), scheduler_services)


@click.command()
@setting(
    "worker_queues",
    "--queue",
    multiple=True,
    help="A queue to read, NAME or NAME=WEIGHT; may be given again."
    " [WATERCLOCK_WORKER_QUEUES; default: http]",
)
@allow_shell
@setting("worker_concurrency", "--concurrency")
@setting("redis_url", "--redis-url")
@log_level("info")
def worker(worker_queues: tuple[str, ...], **options: object) -> None:
    """Run executions: of http jobs, and of shell jobs if allowed.

    Any number may run.
    """
    from engine.roles import worker_services

    config = Config.from_env(worker_queues=",".join(worker_queues) or None, **options)
    queues = queues_of(config)
    _run_on_store(
        config,
        lambda store, clock: worker_services(store, clock, queues, config.worker_concurrency),
    )


@click.command()
@setting("host", "--host")
@setting("port", "--port")
@setting("redis_url", "--redis-url")
@log_level("info")
def api(**options: object) -> None:
    """Serve the HTTP API. Any number may run."""
    from api.server import serve

    config = Config.from_env(**options)

    def tell(port: int) -> None:
        log.info("the API listens on %s", url_of(config.host, port))

    run_process(lambda stop: serve(config, stop, on_listening=tell))


def url_of(host: str, port: int) -> str:
    """Return the API's URL; an IPv6 address gets its brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def queues_of(config: Config) -> dict[str, int]:
    """Return the queues that a worker reads, with their weights. Raises BadInput for what is no
    queue."""
    weights = parse_queues(config.worker_queues.split(","))
    if config.allow_shell and "worker_queues" not in config.model_fields_set:
        weights[SHELL_QUEUE] = 1
    return weights


def _run_on_store(
    config: Config, services: Callable[[Store, SampledClock], Sequence[Service]]
) -> None:
    async def main(stop: asyncio.Event) -> None:
        store = await open_store(config, stop)
        if store is not None:
            async with store:
                await run_services(services(store, ServerClock()), stop, config.shutdown_ms)

    run_process(main)
