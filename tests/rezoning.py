"""A zone under other rules than those of this process: what an older edition of the database said.

`Europe/Berlin` stands for the zone that changes. By the edition `OLD` its clock was what that of
another zone is, so that the other zone says what was right then. In winter, which `NOW` is in, it
is an hour ahead of UTC by the edition of this process:

    EARLIER   it was two hours ahead: the clock is put back, and times come an hour later
    LATER     it was as UTC: the clock is put forward, and times come an hour earlier
"""

from __future__ import annotations

from engine import codec
from engine.keys import ZONES
from engine.plan import Cron, Edition, Misfire, Plan, read_rules
from engine.store import Store

OLD = "2000a"
ZONE = "Europe/Berlin"
EARLIER, LATER = "Etc/GMT-2", "Etc/UTC"


def rules_with(other: str, zone: str = ZONE) -> dict[str, bytes]:
    """Return the rules of all zones, with those of another one for `zone`."""
    rules = read_rules()
    return rules | {zone: rules[other]}


def edition_with(other: str, zone: str = ZONE) -> Edition:
    return Edition(rules_with(other, zone))


def cron(expr: str, zone: str = ZONE, misfire: Misfire | None = None) -> Plan:
    return Plan.of(Cron(expr, zone), misfire)


async def be_old(store: Store, other: str, edition: str = OLD) -> None:
    """Make all next times those of an edition by which the zone was as another one."""
    await store.client.hset(ZONES, edition, codec.dump_rules(rules_with(other)))
    for shard in store.layout.shards:
        await store.client.sadd(shard.zones, edition)
