"""`waterclock keys …`: API keys, made and revoked on the server itself.

Not over the API: it asks for a key, and the first one has to come from somewhere. Who reaches the
server has all rights anyhow.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from engine.access import DEFAULT_OVERLAP_MS, LONGEST_LIFE_MS, ApiKey, Quotas, Scope
from engine.cli.options import confirm_one, json_option, setting, yes_option
from engine.cli.show import print_facts, print_json, print_table
from engine.config import Config
from engine.embedded import EmbeddedServer, find_server
from engine.errors import Unusable
from engine.plan import Every, parse_schedule
from engine.store import Store
from engine.store.api_keys import (
    create_api_key,
    list_api_keys,
    revoke_api_key,
    rotate_api_key,
)
from engine.store.connection import TRANSIENT

OnStore = Callable[[Store, int], Awaitable[Any]]
"""What is done on a store, at a time."""


class _Span(click.ParamType[int]):
    """A length of time such as 24h or 1h30m, taken as milliseconds."""

    name = "span"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int) or value == "0":
            return int(value)
        schedule = parse_schedule(f"every {value}", "UTC", now=0)
        assert isinstance(schedule, Every)
        if schedule.interval_ms > LONGEST_LIFE_MS:
            self.fail("that is more than ten years", param, ctx)
        return schedule.interval_ms


SPAN = _Span()


@click.group()
def keys() -> None:
    """Make, list, rotate and revoke API keys.

    On the server itself, not over the API: the first key has to come from somewhere.
    """


def on_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--redis-url`, `--data-dir` and `--json`; its first argument does something on
    that server, and returns what that gave."""

    @setting("redis_url", "--redis-url")
    @setting(
        "data_dir",
        "--data-dir",
        type=click.Path(path_type=Path),
        help="Where `up` keeps its own server's data; used if it is there and no other server is"
        " named. [WATERCLOCK_DATA_DIR; default: .waterclock]",
    )
    @json_option
    @functools.wraps(command)
    def with_server(
        *args: Any, redis_url: str | None, data_dir: Path | None, **options: Any
    ) -> None:
        if redis_url is not None and data_dir is not None:
            raise click.UsageError("--data-dir and --redis-url exclude each other")
        config = Config.from_env(redis_url=redis_url, data_dir=data_dir)
        with _reached(config, data_dir is not None) as reached:
            command(functools.partial(_run, reached), *args, **options)

    return with_server


@contextmanager
def _reached(config: Config, is_embedded: bool) -> Iterator[Config]:
    """Yield settings of a server that runs: the one that is named, or else the one of the data
    directory, which is started for the while unless somebody else has."""
    is_named = "redis_url" in config.model_fields_set
    is_there = config.data_dir.joinpath("lock").exists()
    if not is_embedded and (is_named or not is_there):
        yield config
        return
    server = EmbeddedServer(config.data_dir, binary=find_server(config.server_bin))
    is_ours = not server.answers()
    try:
        yield config.model_copy(update={"redis_url": server.start() if is_ours else server.url})
    finally:
        if is_ours:
            server.stop()


def _run(config: Config, act: OnStore) -> Any:
    async def main() -> Any:
        async with await Store.open(config) as store:
            return await act(store, int(time.time() * 1000))

    try:
        return asyncio.run(main())
    except TRANSIENT as error:
        raise Unusable(
            f"no server answers ({error}); say where it is with --redis-url or --data-dir"
        ) from None


@keys.command()
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="What the key lets do: read; write, which reads, too; worker: claim and complete; admin:"
    " everything. May be given again.",
)
@click.option("--name", default="", help="Whose key it is, or what for. [default: its scopes]")
@click.option(
    "--group", "groups", multiple=True, help="Restrict it to this group; may be given again."
)
@click.option("--expires-in", type=SPAN, help="How long it is good, such as 90d. [for ever]")
@click.option("--rate", type=float, help="Requests a second that it may send, to each API process.")
@click.option("--burst", type=int, help="Requests that may come at once. [default: a second's]")
@click.option("--max-jobs", type=int, help="Jobs that its groups may have together.")
@click.option("--max-payload-bytes", type=int, help="Bytes of payload that these may have.")
@on_server
def create(
    run: Callable[[OnStore], Any],
    scopes: tuple[str, ...],
    name: str,
    groups: tuple[str, ...],
    expires_in: int | None,
    rate: float | None,
    burst: int | None,
    max_jobs: int | None,
    max_payload_bytes: int | None,
    as_json: bool,
) -> None:
    """Make a key, and print it: nobody shows it again."""
    made, text = run(
        lambda store, now: create_api_key(
            store,
            now,
            name=name or ", ".join(scopes),
            scopes=map(Scope, scopes),
            groups=groups or None,
            expires_in_ms=expires_in,
            quotas=Quotas(rate, burst, max_jobs, max_payload_bytes),
        )
    )
    _print_new(made, text, as_json)


@keys.command(name="list")
@on_server
def list_(run: Callable[[OnStore], Any], as_json: bool) -> None:
    """List keys, the oldest first, without what proves them."""
    found = [_shown(*one) for one in run(lambda store, _: list_api_keys(store))]
    if as_json:
        print_json({"keys": found})
        return
    print_table(
        ("ID", "NAME", "SCOPES", "GROUPS", "EXPIRES", "LAST USED"),
        [
            (
                key["key_id"],
                key["name"],
                ", ".join(key["scopes"]),
                "all" if key["groups"] is None else ", ".join(key["groups"]),
                key["expires_at"],
                key["last_used_at"],
            )
            for key in found
        ],
    )


@keys.command()
@click.argument("key_id")
@click.option(
    "--overlap",
    type=SPAN,
    default=DEFAULT_OVERLAP_MS,
    help="How long the old key is good beside the new one. [default: 1d]",
)
@on_server
def rotate(run: Callable[[OnStore], Any], key_id: str, overlap: int, as_json: bool) -> None:
    """Make a key in the place of another, and print it.

    It has the same rights.
    """
    made, text = run(lambda store, now: rotate_api_key(store, key_id, now, overlap_ms=overlap))
    _print_new(made, text, as_json)


@keys.command()
@click.argument("key_id")
@yes_option
@on_server
def revoke(run: Callable[[OnStore], Any], key_id: str, as_json: bool, yes: bool) -> None:
    """Make a key worthless; running APIs know it within a second."""
    confirm_one(f"Revoke key {key_id}?", yes)
    run(lambda store, now: revoke_api_key(store, key_id, now))
    if as_json:
        print_json({"key_id": key_id, "revoked": True})
    else:
        click.echo(f"revoked {key_id}")


def _shown(key: ApiKey, used_at: int | None) -> dict[str, Any]:
    # Not at the top: the API's packages take a while to load, and other commands need none.
    from api.keys import key_out

    return {**key_out(key, used_at)}


def _print_new(made: ApiKey, text: str, as_json: bool) -> None:
    shown = {**_shown(made, None), "key": text}
    if as_json:
        print_json(shown)
        return
    print_facts(
        (name, ", ".join(value) if isinstance(value, list) else value)
        for name, value in shown.items()
        if value is not None
    )
    click.echo(
        "Keep it: nobody shows it again. Clients send it as `Authorization: Bearer …`.", err=True
    )
