"""deliver_upstreams: what a dependent job hears of its upstream jobs, and when it starts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from invariants import Keyspace, changes, read_shard
from linking import Teller, became, dependent, depends, make, outbox_of
from seeding import (
    MINUTE,
    NOW,
    fire,
    grant,
    http,
    job_ids,
    registration,
    result,
    small,
    take,
)

from engine.depends import Condition, Depends, Join, Match, Upstream
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import JobState, Overlap, Rules
from engine.names import Priority
from engine.store import Store
from engine.store.changes import pause_job, replace_job
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.outbox import deliver_upstreams

ALL, ANY = Join.ALL, Join.ANY
ENDS = ("succeeded", "dead", "cancelled", "skipped", "upstream_failed")
MET = {
    Condition.SUCCEEDED: {"succeeded"},
    Condition.FAILED: {"dead"},
    Condition.FINISHED: set(ENDS),
}
LATER = NOW + 70_000


async def begin(store: Store, on: str | Depends, **more: Any) -> Teller:
    """Register a job `z` that depends on others; these are known by name only."""
    on = depends(on) if isinstance(on, str) else on
    await create_jobs(store, [dependent("z", on, **more)])
    return Teller(store)


def home(store: Store) -> Shard:
    return store.layout.shard_of("z")


async def space_of(store: Store) -> Keyspace:
    return await read_shard(store, home(store))


async def has_started(store: Store, time: int = NOW) -> bool:
    return any(live.nominal_at == time for live in (await get_job(store, "z")).live)


async def end_z(store: Store, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    [delivery] = await take(store)
    await complete_executions(store, [result(delivery, outcome)], NOW)


# Words


async def test_the_last_of_all_starts_it_under_the_time_of_its_root(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    assert await teller.tell("z", "a") == "noted"
    before = await space_of(any_store)
    assert before[f"arrivals:z@{NOW}"] == {
        "a": "+succeeded ",
        "@met": "1",
        "@missed": "0",
        "@open": "0",
        "@version": "1",
    }
    assert before["awaiting"] == {f"z@{NOW}": NOW}
    assert await teller.tell("z", "b", now=LATER) == "fired"
    changed = changes(before, await space_of(any_store))
    [entry] = changed["ready:default"]
    assert changed["ready:default"][entry] == {
        "execution_id": f"z@{NOW}",
        "attempt": "1",
        "due_at": str(LATER),
        "target": '{"type":"worker"}',
        "payload": '{"n":1}',
    }
    source = any_store.layout.shard_of("b").index
    assert changed["job:z"] == {
        f"x:{NOW}": f"ready:1:{entry}",
        "live": "1",
        f"relay:{source}": "2-0",
    }
    assert changed["ledger"] == [["fired", f"z@{NOW}", 1, LATER, "default"]]
    assert changed["awaiting"] == {f"z@{NOW}": None}
    assert changed.keys() == {"ready:default", "job:z", "ledger", "awaiting", f"arrivals:z@{NOW}"}


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize("condition", list(Condition))
async def test_each_condition_is_met_by_its_outcomes_and_no_other(
    any_store: Store, condition: Condition, outcome: str
) -> None:
    teller = await begin(any_store, Depends((Upstream("a", condition),)))
    is_met = outcome in MET[condition]
    assert await teller.tell("z", "a", outcome) == ("fired" if is_met else "blocked")
    assert await has_started(any_store) == is_met
    assert await became(any_store, "z") == ([] if is_met else ["upstream_failed"])


@pytest.mark.parametrize(
    ("join", "first", "second", "words"),
    [
        (ALL, "succeeded", "succeeded", ["noted", "fired"]),
        (ALL, "succeeded", "dead", ["noted", "blocked"]),
        (ALL, "dead", "succeeded", ["blocked", "noted"]),
        (ALL, "dead", "dead", ["blocked", "noted"]),
        (ANY, "succeeded", "succeeded", ["fired", "noted"]),
        (ANY, "succeeded", "dead", ["fired", "noted"]),
        (ANY, "dead", "succeeded", ["noted", "fired"]),
        (ANY, "dead", "dead", ["noted", "blocked"]),
    ],
)
@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_each_join_with_two_ends_in_either_order(
    any_store: Store, join: Join, first: str, second: str, words: list[str], order: str
) -> None:
    teller = await begin(any_store, depends("a b", join))
    told = [await teller.tell("z", order[0], first), await teller.tell("z", order[1], second)]
    assert told == words
    assert await has_started(any_store) == ("fired" in words)
    assert await became(any_store, "z") == ["upstream_failed"] * words.count("blocked")


async def test_what_was_heard_already_changes_nothing(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    ending = teller.ending("a")
    assert await teller.send("z", ending) == "noted"
    before = await space_of(any_store)
    assert await teller.send("z", ending, LATER) == "already"
    assert await teller.send("z", replace(ending, entry="0-9"), LATER) == "already"
    assert await space_of(any_store) == before


async def test_entries_are_compared_as_numbers(any_store: Store) -> None:
    teller = await begin(any_store, "a b c")
    ending = teller.ending("a")
    for entry, word in [
        ("9-9", "noted"),
        ("9-10", "noted"),
        ("10-0", "noted"),
        ("9-11", "already"),
    ]:
        assert await teller.send("z", replace(ending, entry=entry)) == word


async def test_each_source_shard_has_a_mark_of_its_own(any_store: Store) -> None:
    names = [f"u{n}" for n in range(20)]
    there = {any_store.layout.shard_of(name): name for name in names}
    one, other = sorted(there.values())[:2]
    teller = await begin(any_store, f"{one} {other}")
    assert await teller.send("z", replace(teller.ending(one), entry="500-0")) == "noted"
    assert await teller.send("z", replace(teller.ending(other), entry="1-0")) == "fired"


async def test_a_job_that_is_gone_or_depends_on_others_passes_it_over(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    before = await space_of(any_store)
    assert await teller.tell("z", "b") == "gone"
    assert await space_of(any_store) == before
    await delete_job(any_store, "z")
    before = await space_of(any_store)
    assert await teller.tell("z", "a") == "gone"
    assert await space_of(any_store) == before


@pytest.mark.parametrize(
    ("listed", "told", "word"),
    [
        ("xsa", "a", "gone"),
        ("sa", "a", "gone"),
        ("a.b", "a-b", "gone"),
        ("a.b", "axb", "gone"),
        ("a:b", "b", "gone"),
        ("ab", "a", "gone"),
        ("a-b", "a-b", "fired"),
        ("a.b_c:d-e", "a.b_c:d-e", "fired"),
        ("s", "s", "fired"),
        ("ss/failed s", "ss", "blocked"),
        ("ss/failed s", "s", "noted"),
        ("s ss/failed", "ss", "blocked"),
    ],
)
async def test_ids_are_not_taken_for_others_that_look_like_them(
    any_store: Store, listed: str, told: str, word: str
) -> None:
    teller = await begin(any_store, listed)
    assert await teller.tell("z", told) == word


# Edits


async def test_after_an_edit_only_those_count_that_it_still_depends_on(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    await teller.tell("z", "a")
    stored = await get_job(any_store, "z")
    await replace_job(any_store, stored, dependent("z", depends("b c")), NOW)
    assert await teller.tell("z", "a", time=NOW + 1) == "gone"
    assert await teller.tell("z", "b") == "noted"
    assert (await space_of(any_store))[f"arrivals:z@{NOW}"].keys() == {
        *("b", "@met", "@missed", "@open", "@version")
    }
    assert await teller.tell("z", "c") == "fired"


async def test_after_an_edit_the_new_condition_counts(any_store: Store) -> None:
    teller = await begin(any_store, depends("a/failed b c", ANY))
    await teller.tell("z", "a", "succeeded")
    stored = await get_job(any_store, "z")
    await replace_job(any_store, stored, dependent("z", depends("a b c")), NOW)
    assert await teller.tell("z", "b") == "noted"
    heard = (await space_of(any_store))[f"arrivals:z@{NOW}"]
    assert (heard["a"], heard["@met"]) == ("+succeeded ", "2")
    assert await teller.tell("z", "c") == "fired"


# Once for each time


async def test_a_redriven_success_releases_what_was_stopped_and_tells_on(any_store: Store) -> None:
    await make(any_store, {"a": "", "z": "a", "y": "z"})
    teller = Teller(any_store)
    assert await teller.tell("z", "a", "dead") == "blocked"
    assert await outbox_of(any_store, "z") == [("z", "upstream_failed", f"a@{NOW}")]
    assert await teller.tell("z", "a", "dead", again=True) == "noted"
    assert len(await outbox_of(any_store, "z")) == 1
    assert await teller.tell("z", "a", again=True) == "fired"
    await end_z(any_store)
    assert [told[1] for told in await outbox_of(any_store, "z")] == ["upstream_failed", "succeeded"]
    assert await became(any_store, "z") == ["upstream_failed", "succeeded"]


async def test_the_first_cause_is_named_down_the_chain(any_store: Store) -> None:
    await make(any_store, {"a": "", "b": "a", "z": "b", "y": "z"})
    teller = Teller(any_store)
    await teller.tell("z", "b", "upstream_failed", cause=f"a@{NOW}")
    assert await outbox_of(any_store, "z") == [("z", "upstream_failed", f"a@{NOW}")]
    assert (await space_of(any_store))["runs:z"][0][5] == f"upstream_failed: a@{NOW}"


async def test_a_success_that_was_to_be_a_failure_is_the_cause(any_store: Store) -> None:
    teller = await begin(any_store, "a/failed")
    assert await teller.tell("z", "a") == "blocked"
    assert (await space_of(any_store))["runs:z"][0][5] == f"upstream_failed: a@{NOW}"


@pytest.mark.parametrize("condition", ["failed", "finished"])
async def test_what_had_its_time_is_not_run_again_when_a_death_is_redriven(
    any_store: Store, condition: str
) -> None:
    teller = await begin(any_store, f"a/{condition}")
    assert await teller.tell("z", "a", "dead") == "fired"
    await end_z(any_store)
    assert await teller.tell("z", "a", "dead", again=True) == "noted"
    assert await teller.tell("z", "a", again=True) == "noted"
    assert await became(any_store, "z") == ["succeeded"]
    assert not await has_started(any_store)
    assert "awaiting" not in await space_of(any_store)  # nobody redrives what has succeeded


async def test_an_upstream_job_that_is_run_anew_alone_starts_nothing(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    await teller.tell("z", "a")
    await end_z(any_store)
    assert await teller.tell("z", "a", again=True) == "already"
    assert not await has_started(any_store)


async def test_what_is_not_run_above_may_still_be_so_it_does_not_fire_twice(
    any_store: Store,
) -> None:
    teller = await begin(any_store, "a/finished")
    assert await teller.tell("z", "a", "upstream_failed") == "fired"
    await end_z(any_store)
    # Released by a redrive further up, it runs for the first time.
    assert await teller.tell("z", "a") == "noted"
    assert not await has_started(any_store)


async def test_what_has_heard_nothing_for_long_is_forgotten(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    day = 86_400_000
    await teller.tell("z", "a", time=NOW)
    await teller.tell("z", "a", time=NOW + 1, now=NOW + 59 * day)
    assert (await space_of(any_store))["awaiting"].keys() == {f"z@{NOW}", f"z@{NOW + 1}"}
    await teller.tell("z", "a", time=NOW + 2, now=NOW + 60 * day)
    after = await space_of(any_store)
    assert after["awaiting"].keys() == {f"z@{NOW + 1}", f"z@{NOW + 2}"}
    assert f"arrivals:z@{NOW}" not in after


async def test_what_hears_at_last_is_not_forgotten_in_the_same_moment(any_store: Store) -> None:
    teller = await begin(any_store, "a b c")
    await teller.tell("z", "a")
    await teller.tell("z", "b", now=NOW + 100 * 86_400_000)
    assert (await space_of(any_store))[f"arrivals:z@{NOW}"]["@met"] == "2"


# Latest


async def test_latest_fires_at_a_time_of_its_own_and_begins_anew(any_store: Store) -> None:
    teller = await begin(any_store, depends("a b", match=Match.LATEST))
    assert await teller.tell("z", "a", time=NOW - 7) == "noted"
    assert await teller.tell("z", "a", time=NOW - 6) == "noted"
    assert await teller.tell("z", "b", time=NOW - 5, now=LATER) == "fired"
    assert await has_started(any_store, LATER)
    assert "awaiting" not in await space_of(any_store)
    assert await teller.tell("z", "b", now=LATER) == "noted"
    assert await teller.tell("z", "a", now=LATER) == "fired"
    assert await has_started(any_store, LATER + 1)


async def test_latest_never_has_a_time_twice_and_counts_what_is_redriven(any_store: Store) -> None:
    teller = await begin(any_store, depends("a", match=Match.LATEST))
    for n in range(3):
        assert await teller.tell("z", "a", time=NOW + n, again=n == 1, now=LATER) == "fired"
        [delivery] = await take(any_store)
        assert delivery.execution_id == f"z@{LATER + n}"
        await complete_executions(any_store, [result(delivery)], NOW)


async def test_latest_keeps_a_success_whatever_comes_after_it(any_store: Store) -> None:
    teller = await begin(any_store, depends("a b", match=Match.LATEST))
    await teller.tell("z", "a", time=NOW)
    assert await teller.tell("z", "a", "dead", time=NOW + 1) == "noted"
    assert await teller.tell("z", "b", time=NOW + 2) == "fired"
    assert await became(any_store, "z") == []


async def test_latest_tells_of_a_death_once_and_fires_at_the_next_success(any_store: Store) -> None:
    teller = await begin(any_store, depends("a", match=Match.LATEST))
    assert await teller.tell("z", "a", "dead", time=NOW) == "blocked"
    assert await teller.tell("z", "a", "dead", time=NOW + 1) == "noted"
    assert await teller.tell("z", "a", time=NOW + 2, now=LATER) == "fired"
    assert await teller.tell("z", "a", "dead", time=NOW + 3) == "blocked"


# What else a job asks for


async def test_a_paused_job_skips_its_time_and_says_so_to_those_below(any_store: Store) -> None:
    await make(any_store, {"a": "", "z": "a", "y": "z"})
    teller = Teller(any_store)
    await pause_job(any_store, "z", NOW)
    assert await teller.tell("z", "a") == "skipped"
    assert await became(any_store, "z") == ["paused"]
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW}")]


async def test_the_last_of_its_executions_completes_it_and_further_times_are_told(
    any_store: Store,
) -> None:
    teller = await begin(any_store, "a", rules=Rules(max_runs=1))
    await make(any_store, {"y": "z"})
    assert await teller.tell("z", "a") == "fired"
    assert (await get_job(any_store, "z")).job.state is JobState.COMPLETED
    assert await teller.tell("z", "a", time=NOW + 1) == "skipped"
    assert await became(any_store, "z") == []
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW + 1}")]


async def test_overlap_skip_is_told_to_those_below(any_store: Store) -> None:
    teller = await begin(any_store, "a", overlap=Overlap.SKIP)
    await make(any_store, {"y": "z"})
    assert await teller.tell("z", "a") == "fired"
    assert await teller.tell("z", "a", time=NOW + 1) == "skipped"
    assert await became(any_store, "z") == ["overlap"]
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW + 1}")]


async def test_a_time_that_waits_for_an_older_one_keeps_its_results(any_store: Store) -> None:
    teller = await begin(any_store, "a", overlap=Overlap.QUEUE_ALL)
    assert await teller.tell("z", "a") == "fired"
    assert await teller.tell("z", "a", time=NOW + 1, result=b"7") == "fired"
    assert (await get_job(any_store, "z")).job.queued == (NOW + 1,)
    await end_z(any_store)
    await fire(any_store, home(any_store))
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.upstream) == (f"z@{NOW + 1}", b'{"a":7}')


async def test_a_newer_time_replaces_what_is_live_and_that_is_told(any_store: Store) -> None:
    teller = await begin(any_store, "a", overlap=Overlap.REPLACE)
    await make(any_store, {"y": "z"})
    await teller.tell("z", "a", result=b"1")
    assert await teller.tell("z", "a", time=NOW + 1, result=b"2") == "fired"
    assert await became(any_store, "z") == ["replaced"]
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW}")]
    assert (await space_of(any_store))["inputs:z"] == {str(NOW + 1): '{"a":2}'}


async def test_it_goes_into_the_stream_of_its_priority_and_expires_as_others(
    any_store: Store,
) -> None:
    rules = Rules(expires_after_ms=5_000)
    teller = await begin(any_store, "a", priority=Priority.HIGH, rules=rules)
    await teller.tell("z", "a", now=NOW + 100)
    [entry] = (await space_of(any_store))["ready:default:high"].values()
    assert entry["expires_at"] == str(NOW + 5_000)


async def test_in_a_full_queue_it_waits_for_room_with_its_results(any_store: Store) -> None:
    store = small(any_store, 1)
    teller = await begin(store, "a")
    await teller.tell("z", "a")
    assert await teller.tell("z", "a", time=NOW + 1, result=b"[1]") == "fired"
    space = await space_of(store)
    assert space["due:@default"] == {f"z@{NOW + 1}": NOW}
    await end_z(store)
    await fire(store, home(store))
    [delivery] = await take(store)
    assert (delivery.execution_id, delivery.upstream) == (f"z@{NOW + 1}", b'{"a":[1]}')


async def test_it_waits_for_a_permit_like_any_other(any_store: Store) -> None:
    teller = await begin(any_store, "a", queue="http", target=http("h"))
    await grant(any_store, home(any_store), {"slots:h/h": "1"})
    await teller.tell("z", "a")
    await teller.tell("z", "a", time=NOW + 1)
    space = await space_of(any_store)
    assert space["due:@h/h"] == {f"z@{NOW + 1}": NOW}
    assert space["gates"] == {"slots:h/h": "0", "live:h/h": "1", "token": "1"}


async def test_several_in_one_script_share_room(any_store: Store) -> None:
    store = small(any_store, 1)
    one, other, *_ = job_ids(store, 2)
    shard = store.layout.shard_of(one)
    await create_jobs(store, [dependent(name, depends("a")) for name in (one, other)])
    teller = Teller(store)
    ending = teller.ending("a")
    source = store.layout.shard_of("a")
    told = [(shard, one, ending), (shard, other, ending)]
    assert await deliver_upstreams(store, source, told, NOW) == ["fired", "fired"]
    space = await read_shard(store, shard)
    assert len(space["ready:default"]) == 1
    assert space["due:@default"] == {f"{other}@{NOW}": NOW}


async def test_a_time_that_runs_by_hand_already_counts_as_had(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    by_hand = await run_job(any_store, "z", NOW)
    assert by_hand == f"z@{NOW}"
    assert await teller.tell("z", "a") == "noted"
    assert len((await get_job(any_store, "z")).live) == 1
    assert "awaiting" not in await space_of(any_store)


async def test_results_are_joined_and_those_without_are_left_out(any_store: Store) -> None:
    teller = await begin(any_store, "a b c/finished d-1.x:y")
    text = json.dumps({"text": 'x "y"\n} z'}).encode()
    await teller.tell("z", "a", result=text)
    await teller.tell("z", "b")
    await teller.tell("z", "c", "dead")
    await teller.tell("z", "d-1.x:y", result=b"[1, 2]")
    [delivery] = await take(any_store)
    assert json.loads(delivery.upstream) == {"a": json.loads(text), "d-1.x:y": [1, 2]}


# What is told of what a schedule does


async def test_a_scheduled_overlap_is_told_to_those_below(any_store: Store) -> None:
    await create_jobs(any_store, [registration("z", overlap=Overlap.SKIP)])
    await make(any_store, {"y": "z"})
    await fire(any_store, home(any_store))
    await fire(any_store, home(any_store), NOW + MINUTE)
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW + MINUTE}")]


async def test_a_scheduled_replacement_is_told_to_those_below(any_store: Store) -> None:
    await create_jobs(any_store, [registration("z", overlap=Overlap.REPLACE)])
    await make(any_store, {"y": "z"})
    await fire(any_store, home(any_store))
    await fire(any_store, home(any_store), NOW + MINUTE)
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW}")]


async def test_an_expired_execution_is_told_to_those_below(any_store: Store) -> None:
    await create_jobs(any_store, [registration("z", rules=Rules(expires_after_ms=1))])
    await make(any_store, {"y": "z"})
    await fire(any_store, home(any_store))
    await end_z(any_store, Outcome.SKIPPED)
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW}")]
