"""`waterclock doctor`: is all well, and if not, what to do about it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.options import over_api, setting
from engine.cli.show import print_json, print_table
from engine.clock import ServerClock
from engine.config import Config
from engine.doctor import Facts, Finding, Verdict, collect, examine, judge_audit
from engine.errors import Unusable
from engine.plan import ZONE_DATABASE
from engine.store import Store
from engine.store.audit import EXAMPLES, Audit
from engine.store.connection import TRANSIENT
from engine.store.facts import is_deployed
from engine.store.server import time_ms


@click.command()
@setting(
    "redis_url",
    "--redis-url",
    help="Ask this server, not the API: for when that is down. [WATERCLOCK_REDIS_URL]",
)
@click.option("--full", is_flag=True, help="Hold the whole index against the records.")
@over_api
def doctor(api: Api, as_json: bool, redis_url: str | None, full: bool) -> None:
    """Say whether all is well, and what to do if not.

    Looks at server, schedulers, workers, work and index. The exit code is 1 if something fails.
    """
    if redis_url is None:
        found = over_http(api, full=full)
    else:
        found = asyncio.run(directly(Config.from_env(redis_url=redis_url), full=full))
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        print_table(
            ("VERDICT", "CHECK", "FOUND", "WHAT TO DO"),
            [(one.verdict.value, one.check, one.found, one.advice) for one in found],
        )
    if any(finding.verdict is Verdict.FAIL for finding in found):
        raise SystemExit(1)


def over_http(api: Api, *, full: bool, zones_here: str = ZONE_DATABASE) -> list[Finding]:
    """Return what the API says, and how this machine's time zones go with it."""
    said = api.get("doctor")["findings"]
    found = [Finding(**{**one, "verdict": Verdict(one["verdict"])}) for one in said]
    if full:
        found[-1] = judge_audit(_audit(api))
    theirs = api.get("server")["deployment"]["timezones"]
    if theirs != zones_here:
        found.append(
            Finding(
                "time zones here",
                Verdict.WARN,
                f"tzdata {zones_here}, and {theirs} at the API",
                "`waterclock next` may tell other times here: install the same tzdata",
            )
        )
    return found


def _audit(api: Api) -> Audit:
    """Return what the API finds in all shards, one after the other."""
    whole = Audit()
    for shard in range(api.get("server")["deployment"]["shards"]):
        part: dict[str, Any] = api.get("doctor", "shards", str(shard))
        whole += Audit(
            jobs=part["jobs"],
            members=part["members"],
            faults=Counter(part["faults"]),
            examples=part["examples"][:EXAMPLES],
        )
    return whole


async def directly(config: Config, *, full: bool) -> list[Finding]:
    """Return what the server itself says. One that no store can be opened on is a finding, too."""
    try:
        return examine(await _collect(config, full=full))
    except Unusable as error:
        text, advice = error.message, "nothing works on it until that is set right"
    except TRANSIENT as error:
        text = f"{type(error).__name__}: {error}"
        advice = "see that it runs, and that --redis-url is its address and password"
    return [Finding("server", Verdict.FAIL, text, advice)]


async def _collect(config: Config, *, full: bool) -> Facts:
    if not await is_deployed(config.redis_url):
        raise Unusable("there is no deployment of Waterclock on this server")
    async with await Store.open(config, even_frozen=True) as store:
        clock = ServerClock()
        clock.sample(await time_ms(store.client))
        return await collect(store, clock, is_full=full)
