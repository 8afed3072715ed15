"""`waterclock deployment …`: carry a whole deployment from one server to another."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import click

from engine.cli.options import confirm_all, json_option, setting, yes_option
from engine.cli.progress import progress
from engine.cli.show import print_facts, print_json
from engine.config import Config
from engine.embedded import EmbeddedServer, find_server
from engine.errors import Unusable
from engine.store import Store
from engine.store.connection import TRANSIENT
from engine.store.freezing import thaw as thaw_store
from engine.store.phase import Phase, read_phase
from engine.store.transfer.move import open_source, open_target, stop
from engine.store.transfer.reading import count_jobs, export_lines
from engine.store.transfer.writing import import_lines, refuse_full

DRAIN_S = 30

_from = (
    setting("redis_url", "--redis-url"),
    setting(
        "data_dir",
        "--data-dir",
        type=click.Path(path_type=Path),
        help="Take the embedded server of this directory, started if need be, in place of a URL.",
    ),
)
_drain = click.option(
    "--drain",
    "drain_s",
    type=click.IntRange(0),
    default=DRAIN_S,
    show_default=True,
    metavar="SECONDS",
    help="How long workers may take to end what they run.",
)


def _file(*, exists: bool = False) -> Callable[..., Any]:
    """Return the argument FILE, "-" unless it is given."""
    kind = click.Path(exists=exists, dir_okay=False, allow_dash=True)
    return click.argument("file", type=kind, default="-", metavar="[FILE|-]")


@click.group()
def deployment() -> None:
    """Carry a whole deployment from one server to another.

    Jobs, next times, waiting executions, histories, settings.
    """


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in _from:
        command = option(command)
    return command


@deployment.command(name="export")
@_file()
@_server_options
@_drain
@click.option("--freeze", is_flag=True, help="Stop the deployment for good; needed unless it is.")
def export_(file: str, drain_s: int, freeze: bool, **where: Any) -> None:
    """Write a whole deployment to a file, as JSON lines.

    "-" is standard output. It stops first: nothing fires, is handed out, or changes any more, and
    its processes wait. What workers run may end. `thaw` lets it go on, if it is not imported
    elsewhere. The file holds all secrets of the deployment that the server does.
    """

    async def run(config: Config) -> None:
        async with open_source(config) as store:
            await _refuse_running(store, freeze)
            with _written(file) as out:
                await _stop(store, drain_s)
                with _bar("exporting", await count_jobs(store)) as advance:
                    async for line in export_lines(store):
                        out.write(line)
                        advance(line)

    with _server(**where) as config:
        _run(run(config))


@deployment.command(name="import")
@_file(exists=True)
@_server_options
@click.option("--shards", type=click.IntRange(1, 256), help="Cut a new deployment into so many.")
@json_option
def import_(file: str, shards: int | None, as_json: bool, **where: Any) -> None:
    """Write an export into an empty server.

    "-" is standard input. Start schedulers, workers and the API there after it. An import that was
    interrupted is run again, and begins anew.
    """

    async def run(config: Config, lines: IO[bytes]) -> Counter[str]:
        async with open_target(config) as store:
            with _bar("importing", None) as advance:
                return await import_lines(store, _each(lines, advance))

    with (
        _server(shards=shards, **where, is_new=True) as config,
        click.open_file(file, "rb") as lines,
    ):
        _print_counts(_run(run(config, lines)), as_json)


@deployment.command()
@click.option("--from", "from_", required=True, metavar="URL|DIR", help="A server, or a data dir.")
@click.option("--to", required=True, metavar="URL|DIR", help="An empty server, or a data dir.")
@_drain
@click.option("--shards", type=click.IntRange(1, 256), help="Cut the new deployment into so many.")
@yes_option
@json_option
def move(from_: str, to: str, drain_s: int, shards: int | None, yes: bool, as_json: bool) -> None:
    """Carry a deployment over: export and import in one.

    The old one stops for good. If the import fails, run this again, or thaw the old one.
    """
    confirm_all("Stop the deployment on the old server for good?", yes)

    async def run(old: Config, new: Config) -> Counter[str]:
        async with open_source(old) as source, open_target(new) as target:
            await refuse_full(target)
            await _stop(source, drain_s)
            with _bar("moving", await count_jobs(source)) as advance:
                return await import_lines(target, _each_of(export_lines(source), advance))

    with ExitStack() as stack:
        old = stack.enter_context(_server(**_place(from_)))
        new = stack.enter_context(_server(shards=shards, **_place(to), is_new=True))
        if old.redis_url == new.redis_url:
            raise click.UsageError("--from and --to are the same server")
        _print_counts(_run(run(old, new)), as_json)


@deployment.command()
@_server_options
@yes_option
def thaw(yes: bool, **where: Any) -> None:
    """Let a deployment go on that an export has stopped.

    It was not imported elsewhere, or is not to work there.
    """
    confirm_all("Every job would fire twice if an import of it works elsewhere. Thaw?", yes)

    async def run(config: Config) -> None:
        async with open_source(config) as store:
            if await read_phase(store.client) is None:
                raise Unusable("the deployment is not stopped")
            await thaw_store(store)

    with _server(**where) as config:
        _run(run(config))
    click.echo("The deployment goes on.", err=True)


def _place(text: str) -> dict[str, Any]:
    return {"redis_url": text} if "://" in text else {"data_dir": Path(text)}


@contextmanager
def _server(*, is_new: bool = False, **options: Any) -> Iterator[Config]:
    """Yield settings whose server runs: that of the URL, or an embedded one, started for the while
    unless somebody else has. A directory without data is refused, unless it may be new."""
    given_dir = options.get("data_dir")
    config = Config.from_env(**options)
    if given_dir is None:
        yield config
        return
    if options.get("redis_url") is not None:
        raise click.UsageError("--data-dir and --redis-url exclude each other")
    if not is_new and not any(given_dir.glob("appendonlydir/*")):
        raise Unusable(f"{given_dir} is no data directory of an embedded server")
    server = EmbeddedServer(given_dir, binary=find_server(config.server_bin))
    with ExitStack() as stack:
        if not server.answers():
            stack.enter_context(server)
        yield config.model_copy(update={"redis_url": server.url})


def _run(main: Coroutine[Any, Any, Any]) -> Any:
    try:
        return asyncio.run(main)
    except TRANSIENT as error:
        raise Unusable(
            f"the server does not answer ({error}); once it does, run the same command again"
        ) from error


async def _refuse_running(store: Store, freeze: bool) -> None:
    phase = await read_phase(store.client)
    if not freeze and phase is not Phase.FROZEN:
        raise click.UsageError(
            "an export stops the deployment for good, since what fires meanwhile would fire twice:"
            " say so with --freeze"
        )


async def _stop(store: Store, drain_s: int) -> None:
    with progress() as bar:
        task = bar.add_task("draining", total=None)
        held = await stop(
            store,
            drain_s * 1000,
            lambda held: bar.update(task, description=f"draining: {held} executions run"),
        )
    if held:
        click.echo(
            f"{held} executions did not end in time: they are delivered again at the new server,"
            " with the same ids",
            err=True,
        )


@contextmanager
def _written(file: str) -> Iterator[IO[bytes]]:
    """Yield a file to write to; it gets its name when it is whole. Others may not read it."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{file}.part")
    try:
        with open(part, "wb", opener=_open_private) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as error:
        raise Unusable(f"cannot write to {file}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def _bar(what: str, jobs: int | None) -> Iterator[Callable[[bytes], None]]:
    """Yield what is called with each line, and moves a bar by its jobs on a terminal."""
    with progress() as bar:
        task = bar.add_task(f"{what} jobs", total=jobs)

        def advance(line: bytes) -> None:
            if line.startswith(b'{"kind":"job"'):
                bar.advance(task)

        yield advance


async def _each(lines: IO[bytes], advance: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    for line in lines:
        advance(line)
        yield line


async def _each_of(
    lines: AsyncIterator[bytes], advance: Callable[[bytes], None]
) -> AsyncIterator[bytes]:
    async for line in lines:
        advance(line)
        yield line


def _print_counts(counts: Counter[str], as_json: bool) -> None:
    if as_json:
        print_json(counts)
    elif counts:
        print_facts((f"{kind} records", count) for kind, count in counts.items())
    else:
        click.echo("All had arrived before; the deployment is open now.", err=True)
