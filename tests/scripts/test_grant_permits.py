"""grant_permits: one process changes the gates, by addition, and an older one is turned away."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import at_once, grant, seed

from engine.errors import Fenced
from engine.keys import Shard
from engine.store import Store
from engine.store.jobs import delete_job


async def gates(store: Store, shard: Shard) -> dict[str, str]:
    found: dict[str, str] = (await read_shard(store, shard)).get("gates", {})
    return found


async def test_a_limit_is_set_and_remembers_who_granted(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    before = await read_shard(any_store, shard)
    fields = {"slots:q/mail": "0", "tokens:h/a.test": "3", "fair:mail": "4"}
    await grant(any_store, shard, fields, token="7")
    assert changes(before, await read_shard(any_store, shard)) == {"gates": fields | {"token": "7"}}


async def test_setting_a_limit_again_leaves_what_is_there(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    await grant(any_store, shard, {"slots:q/mail": "2"})
    await grant(any_store, shard, {"slots:q/mail": "0"})
    assert (await gates(any_store, shard))["slots:q/mail"] == "2"


@pytest.mark.parametrize(("change", "left"), [("+3", "5"), ("-1", "1"), ("-5", "-3")])
async def test_permits_are_added_and_taken_back_even_below_zero(
    any_store: Store, change: str, left: str
) -> None:
    shard = any_store.layout.shards[0]
    await grant(any_store, shard, {"slots:q/mail": "2"})
    await grant(any_store, shard, {"slots:q/mail": change})
    assert await gates(any_store, shard) == {"slots:q/mail": left, "token": "1"}


async def test_a_grant_adds_to_what_executions_left_of_the_last_one(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, {"slots:q/default": "2"})
    await seed(any_store, at_once("job-0"))
    await grant(any_store, shard, {"slots:q/default": "+2"})
    assert await gates(any_store, shard) == {
        "slots:q/default": "3",
        "live:q/default": "1",
        "token": "1",
    }


async def test_nothing_is_left_of_gates_when_the_last_limit_is_lifted(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    await grant(any_store, shard, {"slots:q/mail": "2", "tokens:q/mail": "3"})
    await grant(any_store, shard, {"slots:q/mail": ""})
    assert await gates(any_store, shard) == {"tokens:q/mail": "3", "token": "1"}
    await grant(any_store, shard, {"tokens:q/mail": ""})
    assert await gates(any_store, shard) == {}


async def test_an_older_one_is_turned_away_and_changes_nothing(any_store: Store) -> None:
    """Tokens are compared as numbers: the tenth is newer than the ninth."""
    shard = any_store.layout.shards[0]
    await grant(any_store, shard, {"slots:q/mail": "2"}, token="10")
    before = await read_shard(any_store, shard)
    with pytest.raises(Fenced):
        await grant(any_store, shard, {"slots:q/mail": "+1"}, token="9")
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("token", ["10", "11"])
async def test_the_same_one_and_a_newer_one_go_on(any_store: Store, token: str) -> None:
    shard = any_store.layout.shards[0]
    await grant(any_store, shard, {"slots:q/mail": "2"}, token="10")
    await grant(any_store, shard, {"slots:q/mail": "+1"}, token=token)
    assert await gates(any_store, shard) == {"slots:q/mail": "3", "token": token}


async def test_what_was_live_when_its_limit_was_lifted_gives_nothing_back(
    any_store: Store,
) -> None:
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, {"slots:q/default": "1", "slots:q/mail": "1"})
    await seed(any_store, at_once("job-0"))
    await grant(any_store, shard, {"slots:q/default": "", "live:q/default": ""})
    before = await gates(any_store, shard)
    await delete_job(any_store, "job-0")
    assert await gates(any_store, shard) == before == {"slots:q/mail": "1", "token": "1"}
