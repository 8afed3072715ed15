"""put_calendar: one version in place of another, and nothing for a writer who is late."""

from __future__ import annotations

import pytest

from engine.errors import Conflict, NotFound
from engine.keys import CALENDARS
from engine.store import Store


async def put(store: Store, name: str, version: str, calendar: str) -> int:
    stamp: int = await store.scripts.run("put_calendar", [CALENDARS], [name, version, calendar])
    return stamp


async def held(store: Store) -> dict[str, str]:
    fields = await store.client.hgetall(CALENDARS)
    return {name.decode(): value.decode() for name, value in fields.items()}


async def test_a_calendar_is_written_with_the_stamp_as_its_version(any_store: Store) -> None:
    assert await put(any_store, "a", "", "{}") == 1
    assert await put(any_store, "b", "", "{}") == 2
    assert await put(any_store, "a", "1", '{"hours":[]}') == 3
    assert await held(any_store) == {"a": '3 {"hours":[]}', "b": "2 {}", "@stamp": "3"}


async def test_version_0_stands_for_a_calendar_that_is_not_there(any_store: Store) -> None:
    assert await put(any_store, "a", "0", "{}") == 1
    assert await held(any_store) == {"a": "1 {}", "@stamp": "1"}


async def test_nothing_deletes(any_store: Store) -> None:
    await put(any_store, "a", "", "{}")
    assert await put(any_store, "a", "1", "") == 2
    assert await held(any_store) == {"@stamp": "2"}


@pytest.mark.parametrize(
    ("name", "version", "calendar", "error"),
    [
        ("a", "2", "{}", Conflict),
        ("a", "2", "", Conflict),
        ("a", "0", "{}", Conflict),
        ("gone", "1", "{}", NotFound),
        ("gone", "", "", NotFound),
    ],
)
async def test_a_refused_change_changes_nothing(
    any_store: Store, name: str, version: str, calendar: str, error: type[Exception]
) -> None:
    await put(any_store, "a", "", "{}")
    before = await held(any_store)
    with pytest.raises(error):
        await put(any_store, name, version, calendar)
    assert await held(any_store) == before
