"""Dead letters over HTTP: list, show, redrive, discard."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from burying import bury, delivered, die
from calling import AT_ONCE, Read, create, pointers, refused
from seeding import NOW, fire

from engine.execution import DeadReason
from engine.store import Store, letter_search
from engine.store.jobs import delete_job

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

LETTER = f"mail@{NOW}"


async def listed(client: httpx.AsyncClient, query: str = "") -> list[str]:
    answer = await client.get(f"/v1/dead{query}")
    assert answer.status_code == 200, answer.text
    return [letter["execution_id"] for letter in answer.json()]


async def redrive(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.post("/v1/dead/redrive", json=body)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


async def test_a_list_says_what_died_when_and_why(client: httpx.AsyncClient, store: Store) -> None:
    assert await listed(client) == []
    await bury(store, "mail", NOW + 1_000)
    answer = await client.get("/v1/dead")
    assert "link" not in answer.headers
    assert answer.json() == [
        {
            "execution_id": LETTER,
            "job_id": "mail",
            "scheduled_for": "2027-01-15T08:00:00.000Z",
            "died_at": "2027-01-15T08:00:01.000Z",
            "reason": "exhausted",
            "queue": "default",
            "priority": "normal",
            "attempt_count": 1,
            "error": "HTTP 503: busy",
            "status_code": 503,
        }
    ]


async def test_a_letter_shows_a_target_in_the_words_in_which_it_was_sent(
    client: httpx.AsyncClient, store: Store
) -> None:
    target = {"type": "http", "url": "https://example.com/hook", "signing": "job"}
    await create(client, {**AT_ONCE, "target": target})
    letter = await die(store, await delivered(store, "mail", "http"))
    assert (await client.get(f"/v1/dead/{letter}")).json()["target"] == target


async def test_a_letter_is_shown_with_target_payload_and_attempts(
    client: httpx.AsyncClient, store: Store
) -> None:
    await bury(store, "mail", NOW + 1_000)
    shown = (await client.get(f"/v1/dead/{LETTER}")).json()
    assert (shown["target"], shown["payload"]) == ({"type": "worker"}, {"n": 1})
    assert shown["attempts"] == [
        {
            "attempt": 1,
            "outcome": "dead",
            "started_at": "2027-01-15T08:00:00.500Z",
            "ended_at": "2027-01-15T08:00:00.540Z",
            "duration_ms": 40,
            "lag_ms": 500,
            "worker": "w1",
            "status_code": 503,
            "error": "HTTP 503: busy",
        }
    ]
    [line] = (await client.get("/v1/dead")).json()
    assert {name: shown[name] for name in line} == line


async def test_pages_follow_the_link_until_there_is_none(
    client: httpx.AsyncClient, store: Store
) -> None:
    made = [await bury(store, f"mail-{n}", NOW + n) for n in range(5)]
    await bury(store, "other", NOW + 9)
    url: str | None = "/v1/dead?prefix=mail-&limit=2"
    pages = []
    while url:
        answer = await client.get(url)
        pages.append([letter["execution_id"] for letter in answer.json()])
        url = answer.links["next"]["url"] if "next" in answer.links else None
    assert [n for page in pages for n in page] == made[::-1]
    assert max(map(len, pages)) == 2


async def test_a_page_may_be_empty_and_lead_on(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_search, "SCAN_LIMIT", 2)
    await bury(store, "mail", NOW, reason=DeadReason.FINAL)
    for n in range(2):
        await bury(store, f"other-{n}", NOW + 1 + n)
    first = await client.get("/v1/dead?reason=final")
    assert first.json() == []
    second = await client.get(first.links["next"]["url"])
    assert [letter["execution_id"] for letter in second.json()] == [LETTER]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("job_id=mail", True),
        ("job_id=other", False),
        ("prefix=ma", True),
        ("queue=default", True),
        ("queue=http", False),
        ("reason=final", False),
        ("error=BUSY", True),
        ("from=2027-01-15T08:00:01Z&to=2027-01-15T08:00:01Z", True),
        ("from=2027-01-15T08:00:01.001Z", False),
        ("to=2027-01-15T08:00:00.999Z", False),
    ],
)
async def test_each_filter_is_passed_on(
    client: httpx.AsyncClient, store: Store, query: str, found: bool
) -> None:
    await bury(store, "mail", NOW + 1_000)
    assert await listed(client, f"?{query}") == ([LETTER] if found else [])
    body = dict(pair.split("=") for pair in query.split("&"))
    assert (await redrive(client, **body))["redriven"] == int(found)


@pytest.mark.parametrize(
    "query",
    [
        "job_id=a@1",
        "reason=bored",
        "from=yesterday",
        "limit=0",
        "limit=1001",
        "after=here",
        "after=5-mail",
        "error=",
        "unknown=1",
    ],
)
async def test_a_wrong_query_is_refused(client: httpx.AsyncClient, query: str) -> None:
    problem = refused(await client.get(f"/v1/dead?{query}"), 400, "bad_input")
    assert [fault["parameter"] for fault in problem["errors"]] == [query.partition("=")[0]]


async def test_one_letter_is_redriven_once(client: httpx.AsyncClient, store: Store) -> None:
    await bury(store, "mail")
    answer = await client.post(f"/v1/dead/{LETTER}/redrive")
    assert (answer.status_code, answer.json()) == (202, {"execution_id": LETTER})
    refused(await client.post(f"/v1/dead/{LETTER}/redrive"), 404, "not_found")
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    assert (execution["execution_id"], execution["status"]) == (LETTER, "retrying")
    await fire(store, store.layout.shard_of("mail"))
    assert (await delivered(store, "mail")).attempt == 2


async def test_a_letter_of_a_deleted_job_is_shown_and_not_redriven(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await bury(store, "mail")
    await delete_job(store, "mail")
    before = await keyspace()
    problem = refused(await client.post(f"/v1/dead/{LETTER}/redrive"), 409, "conflict")
    assert "job was deleted" in problem["detail"]
    assert await keyspace() == before
    assert (await client.get(f"/v1/dead/{LETTER}")).status_code == 200
    done = await redrive(client, all=True)
    assert (done["redriven"], done["skipped"], done["next"]) == (0, {"no_job": 1}, None)


async def test_many_are_redriven_step_by_step(client: httpx.AsyncClient, store: Store) -> None:
    for n in range(5):
        await bury(store, f"mail-{n}", NOW + n)
    await bury(store, "other", NOW + 9)
    body: dict[str, Any] = {"prefix": "mail-", "limit": 2}
    steps = [await redrive(client, **body)]
    while steps[-1]["next"]:
        steps.append(await redrive(client, **body, after=steps[-1]["next"]))
    assert [step["redriven"] for step in steps] == [2, 2, 1]
    assert [step["left"] for step in steps] == [3, 1, 0]
    # The other letter, the newest one, was looked at as well.
    assert sum(step["examined"] for step in steps) == 6
    assert await listed(client) == [f"other@{NOW}"]


async def test_one_letter_is_discarded_once(client: httpx.AsyncClient, store: Store) -> None:
    await bury(store, "mail")
    assert (await client.delete(f"/v1/dead/{LETTER}")).status_code == 204
    refused(await client.delete(f"/v1/dead/{LETTER}"), 404, "not_found")
    refused(await client.get(f"/v1/dead/{LETTER}"), 404, "not_found")


async def test_many_are_discarded_step_by_step(client: httpx.AsyncClient, store: Store) -> None:
    for n in range(3):
        await bury(store, f"mail-{n}", NOW + n)
    answer = await client.post("/v1/dead/discard", json={"all": True, "limit": 2})
    done = answer.json()
    assert (done["discarded"], done["examined"], done["left"]) == (2, 2, 1)
    rest = {"all": True, "after": done["next"]}
    done = (await client.post("/v1/dead/discard", json=rest)).json()
    assert (done["discarded"], done["left"], done["next"]) == (1, 0, None)
    assert await listed(client) == []


@pytest.mark.parametrize("verb", ["redrive", "discard"])
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/all"),
        ({"all": False}, "/all"),
        ({"after": None}, "/all"),
        ({"prefix": ""}, "/all"),
        ({"all": True, "job_id": "mail"}, "/all"),
        ({"all": True, "limit": 0}, "/limit"),
        ({"all": True, "limit": 10_001}, "/limit"),
        ({"all": True, "after": "x"}, "/after"),
        ({"reason": "bored"}, "/reason"),
        ({"from": 5}, "/from"),
        ({"unknown": 1}, "/unknown"),
    ],
)
async def test_a_wrong_choice_is_refused_and_changes_nothing(
    client: httpx.AsyncClient,
    store: Store,
    keyspace: Read,
    verb: str,
    body: dict[str, Any],
    pointer: str,
) -> None:
    await bury(store, "mail")
    before = await keyspace()
    answer = await client.post(f"/v1/dead/{verb}", json=body)
    assert pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await keyspace() == before


async def test_what_is_done_to_many_letters_is_the_name_of_none(client: httpx.AsyncClient) -> None:
    for verb in ("redrive", "discard"):
        for method in ("GET", "DELETE"):
            answer = await client.request(method, f"/v1/dead/{verb}")
            refused(answer, 405, "method_not_allowed")
            assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("name", ["mail", "mail@", "a b@5"])
async def test_what_no_execution_is_called_is_not_found(
    client: httpx.AsyncClient, name: str
) -> None:
    refused(await client.get(f"/v1/dead/{name}"), 404, "not_found")
    refused(await client.delete(f"/v1/dead/{name}"), 404, "not_found")
    refused(await client.post(f"/v1/dead/{name}/redrive"), 404, "not_found")
