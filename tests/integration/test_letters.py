"""Dead letters: found, looked into, redriven, discarded, and kept within bounds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from burying import bury, delivered, die, ended, offered
from fleet import with_config
from invariants import read_shard
from seeding import NOW, fire, job_ids, registration, result, run_at_exactly, take

from engine.clock import ManualClock
from engine.errors import NotFound
from engine.execution import DeadReason, Outcome
from engine.names import Priority
from engine.shards import ShardKeeper
from engine.store import Store, letter_search, letters
from engine.store.executions import complete_executions
from engine.store.history import list_executions
from engine.store.jobs import create_jobs, delete_job
from engine.store.letter_search import (
    LetterFilter,
    Place,
    count_letters,
    find_letters,
    read_lines,
)
from engine.store.letters import (
    Redriven,
    discard_letters,
    find_surplus,
    get_letter,
    redrive_letters,
)
from engine.sweeper import SWEEP_MS, Sweeper

ALL = LetterFilter()


async def ids(store: Store, asked: LetterFilter = ALL) -> list[str]:
    return [execution_id for _, execution_id in (await find_letters(store, asked)).places]


async def fire_again(store: Store, job_id: str, now: int) -> None:
    await fire(store, store.layout.shard_of(job_id), now)


async def events(store: Store, job_id: str, word: str) -> list[list[Any]]:
    ledger = (await read_shard(store, store.layout.shard_of(job_id)))["ledger"]
    return [event for event in ledger if event[0] == word]


async def test_a_letter_holds_target_payload_and_all_attempts(store: Store) -> None:
    delivery = await offered(store, "a")
    await complete_executions(store, [ended(delivery, retry_at=NOW + 9, error="first")], NOW)
    await fire_again(store, "a", NOW + 9)
    second = await delivered(store, "a")
    await die(store, second, NOW + 50, reason=DeadReason.FINAL, error="second")
    letter = await get_letter(store, f"a@{NOW}")
    assert (letter.died_at, letter.reason, letter.attempt) == (NOW + 50, DeadReason.FINAL, 2)
    assert (letter.queue, letter.target) == ("default", b'{"type":"worker"}')
    assert letter.payload == b'{"n":1}'
    told = [(record.attempt, record.outcome, record.error) for record in letter.attempts]
    assert told == [(2, Outcome.DEAD, "second"), (1, Outcome.FAILED, "first")]


async def test_there_is_no_letter_of_what_did_not_die(store: Store) -> None:
    await offered(store, "a")
    with pytest.raises(NotFound):
        await get_letter(store, f"a@{NOW}")


async def test_letters_of_all_shards_come_newest_first_however_long_the_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_search, "CHUNK", 2)
    made = []
    for number in range(20):
        # Five a millisecond, so that pages end amid those that stand in the order of their ids.
        died_at = NOW + number // 5
        made.append((died_at, await bury(store, f"job-{number}", died_at)))
    for limit in (1, 3, 7, 20, 100):
        found: list[Place] = []
        after = None
        while True:
            page = await find_letters(store, ALL, after=after, limit=limit)
            assert len(page.places) <= limit
            found += page.places
            after = page.after
            if after is None:
                break
            assert await count_letters(store, ALL, after) >= 20 - len(found)
        assert found == sorted(made, reverse=True)


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (LetterFilter(job_id="mail"), ["mail"]),
        (LetterFilter(job_id="mai"), []),
        (LetterFilter(prefix="mai"), ["mailing", "mail"]),
        (LetterFilter(queue="slow"), ["urgent", "mailing"]),
        (LetterFilter(reason=DeadReason.POISON), ["urgent"]),
        (LetterFilter(error="HTTP 5"), ["mail"]),
        (LetterFilter(error="TIMEOUT"), ["mailing"]),
        (LetterFilter(from_at=NOW + 1), ["urgent", "mailing"]),
        (LetterFilter(to_at=NOW + 1), ["mailing", "mail"]),
        (LetterFilter(from_at=NOW + 1, to_at=NOW + 1), ["mailing"]),
        (LetterFilter(queue="slow", error="timeout"), ["mailing"]),
        (LetterFilter(prefix="mail", reason=DeadReason.POISON), []),
        (ALL, ["urgent", "mailing", "mail"]),
    ],
)
async def test_a_filter_takes_the_letters_for_which_all_of_it_holds(
    store: Store, asked: LetterFilter, taken: list[str]
) -> None:
    await bury(store, "mail", NOW)
    await bury(store, "mailing", NOW + 1, queue="slow", error="timeout: no answer")
    high, poison = Priority.HIGH, DeadReason.POISON
    await bury(store, "urgent", NOW + 2, queue="slow", priority=high, reason=poison, error="dns: x")
    assert await ids(store, asked) == [f"{job_id}@{NOW}" for job_id in taken]
    assert asked.is_empty is (asked == ALL)


async def test_a_search_looks_at_a_bounded_number_and_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_search, "CHUNK", 2)
    monkeypatch.setattr(letter_search, "SCAN_LIMIT", 5)
    await bury(store, "oldest", NOW, error="rare")
    for number in range(11):
        await bury(store, f"job-{number}", NOW + 1 + number)
    asked = LetterFilter(error="rare")
    first = await find_letters(store, asked, limit=1)
    assert (first.places, first.examined) == ([], 5)
    assert await count_letters(store, asked, first.after) >= 7
    second = await find_letters(store, asked, after=first.after, limit=1)
    assert (second.places, second.examined) == ([], 5)
    third = await find_letters(store, asked, after=second.after, limit=1)
    assert (third.places, third.examined) == ([(NOW, f"oldest@{NOW}")], 2)


async def test_a_line_has_the_last_attempt_and_a_letter_that_is_gone_has_none(store: Store) -> None:
    await bury(store, "a", NOW, error="no such mailbox")
    places = [(NOW, f"a@{NOW}"), (NOW, f"gone@{NOW}")]
    [line] = await read_lines(store, places)
    assert (line.execution_id, line.reason, line.stream) == (f"a@{NOW}", "exhausted", "default")
    assert line.last is not None
    assert line.last.error == "no such mailbox"


async def test_a_redriven_execution_keeps_its_id_and_its_attempts_count_on(store: Store) -> None:
    execution_id = await bury(store, "a")
    became = await redrive_letters(store, [execution_id], NOW + 5)
    assert became == {execution_id: Redriven.REDRIVEN}
    assert await ids(store) == []
    await fire_again(store, "a", NOW + 5)
    again = await delivered(store, "a")
    assert (again.execution_id, again.attempt, again.base) == (execution_id, 2, 1)
    await die(store, again, NOW + 70)
    letter = await get_letter(store, execution_id)
    assert [record.attempt for record in letter.attempts] == [2, 1]


async def test_two_redrives_at_once_start_one_attempt(store: Store) -> None:
    execution_id = await bury(store, "a")
    found = await asyncio.gather(
        *(redrive_letters(store, [execution_id], NOW + n) for n in range(5))
    )
    words = [became[execution_id] for became in found]
    assert sorted(words) == [Redriven.GONE] * 4 + [Redriven.REDRIVEN]
    [execution] = await list_executions(store, "a")
    assert execution.attempt == 2
    assert len(await events(store, "a", "redriven")) == 1


async def test_what_cannot_be_redriven_stays_and_says_why(store: Store) -> None:
    """A letter is of the job that had it, not of another one that has got the same id."""
    live, orphan, other = [await bury(store, name) for name in ("live", "orphan", "other")]
    await run_at_exactly(store, "live", NOW)
    for name in ("orphan", "other"):
        await delete_job(store, name)
    made = registration("other")
    newer = replace(made, job=replace(made.job, created_at=NOW + 1))
    assert await create_jobs(store, [newer]) == [True]
    asked = [live, orphan, other, f"none@{NOW}"]
    assert await redrive_letters(store, asked, NOW + 5) == {
        live: Redriven.LIVE,
        orphan: Redriven.NO_JOB,
        other: Redriven.NO_JOB,
        f"none@{NOW}": Redriven.GONE,
    }
    assert sorted(await ids(store)) == sorted([live, orphan, other])
    assert await events(store, "live", "redriven") == []
    # Nothing but the script itself starts what has a letter: it is ended before the invariants.
    await complete_executions(store, [result(await delivered(store, "live"))], NOW)


async def test_going_through_all_ends_though_each_redriven_one_dies_at_once(store: Store) -> None:
    made = [await bury(store, name, NOW + n) for n, name in enumerate(job_ids(store, 6))]
    seen: list[str] = []
    after, now = None, NOW + 100
    while True:
        found = await find_letters(store, ALL, after=after, limit=2)
        step = [execution_id for _, execution_id in found.places]
        seen += step
        await redrive_letters(store, step, now)
        for execution_id in step:
            job_id = execution_id.partition("@")[0]
            await fire_again(store, job_id, now)
        for delivery in await take(store):
            await die(store, delivery, now)
        after, now = found.after, now + 100
        if after is None:
            break
    assert seen == made[::-1]
    assert sorted(await ids(store)) == sorted(made)


async def test_many_are_read_and_redriven_in_batches_and_none_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "BATCH", 2)
    monkeypatch.setattr(letter_search, "LOOK", 4)
    made = [await bury(store, f"job-{number}") for number in range(15)]
    lines = await read_lines(store, [(NOW, execution_id) for execution_id in made])
    assert [line.execution_id for line in lines] == made
    became = await redrive_letters(store, [*made, *made], NOW + 5)
    assert became == dict.fromkeys(made, Redriven.REDRIVEN)
    assert await count_letters(store, ALL) == 0


async def test_a_discarded_letter_is_gone_and_the_history_stays(store: Store) -> None:
    execution_id = await bury(store, "a")
    places = [(NOW, execution_id), (NOW, f"none@{NOW}")]
    assert await discard_letters(store, places, by="me") == 1
    assert await discard_letters(store, places, by="me") == 0
    assert await ids(store) == []
    with pytest.raises(NotFound):
        await get_letter(store, execution_id)
    [execution] = await list_executions(store, "a")
    assert execution.state == "dead"
    assert await events(store, "a", "discarded") == [["discarded", execution_id, "me"]]


async def test_a_letter_that_died_again_is_not_the_one_to_discard(store: Store) -> None:
    execution_id = await bury(store, "a")
    await redrive_letters(store, [execution_id], NOW + 5)
    await fire_again(store, "a", NOW + 5)
    await die(store, await delivered(store, "a"), NOW + 70)
    assert await discard_letters(store, [(NOW, execution_id)], by="me") == 0
    assert await ids(store) == [execution_id]


def hire_sweeper(store: Store, now: int) -> tuple[ShardKeeper, Sweeper]:
    clock = ManualClock(now)
    keeper = ShardKeeper(store, clock, "s1")
    return keeper, Sweeper(store, clock, keeper)


async def test_the_sweeper_discards_what_is_too_old_and_nothing_else(store: Store) -> None:
    store = with_config(store, dead_retention_ms=1_000)
    old, younger = await bury(store, "old", NOW), await bury(store, "younger", NOW + 1)
    keeper, sweeper = hire_sweeper(store, NOW + 1_001)
    await keeper.step()
    assert await sweeper.step() == SWEEP_MS
    assert await ids(store) == [younger]
    assert await events(store, "old", "discarded") == [["discarded", old, "retention"]]


async def test_the_sweeper_keeps_each_shards_part_of_the_limit(store: Store) -> None:
    names = job_ids(store, 5)
    made = [await bury(store, name, NOW + n) for n, name in enumerate(names)]
    # Four shards share five letters: two each.
    store = with_config(store, dead_limit=5)
    keeper, sweeper = hire_sweeper(store, NOW + 10)
    await keeper.step()
    assert await sweeper.step() == SWEEP_MS
    assert await ids(store) == made[:2:-1]


async def test_the_sweeper_does_a_bounded_part_and_comes_back_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("engine.store.letters", "engine.sweeper"):
        monkeypatch.setattr(f"{module}.SWEEP_LIMIT", 2)
    store = with_config(store, dead_retention_ms=1_000)
    for n, name in enumerate(job_ids(store, 5)):
        await bury(store, name, NOW + n)
    keeper, sweeper = hire_sweeper(store, NOW + 10_000)
    await keeper.step()
    left = []
    for pause_ms in (store.config.tick_ms, store.config.tick_ms, SWEEP_MS):
        assert await sweeper.step() == pause_ms
        left.append(await count_letters(store, ALL))
    assert left == [3, 1, 0]


async def test_the_sweeper_leaves_shards_alone_that_it_does_not_hold(store: Store) -> None:
    store = with_config(store, dead_retention_ms=1_000)
    await bury(store, "a", NOW)
    _, sweeper = hire_sweeper(store, NOW + 10_000)
    assert await sweeper.step() == SWEEP_MS
    assert len(await ids(store)) == 1


async def test_nothing_is_surplus_within_time_and_number(store: Store) -> None:
    await bury(store, "a", NOW)
    shard = store.layout.shard_of("a")
    assert await find_surplus(store, shard, NOW + store.config.dead_retention_ms) == []
    assert await find_surplus(store, shard, NOW + store.config.dead_retention_ms + 1) == [
        (NOW, f"a@{NOW}")
    ]
