"""Who may ask for what: every operation of the route table, by callers of every kind."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from burying import delivered, die
from calling import NOW, NOW_TEXT, Read, refused
from calling import clock as clock
from calling import keyspace as keyspace
from keyed import ABSENT, FOREIGN, World, bearer, settle_foreign, told
from keyed import world as world

from api.operations import Operation
from api.routes import OPERATIONS
from engine.access import Scope
from engine.clock import ManualClock
from engine.store import Store, letter_search, recent, search

RANGE = {"from": "2027-01-14T00:00:00Z", "to": "2027-01-14T12:00:00Z"}
BY_ID: dict[str, tuple[int, Any]] = {
    "jobs_show": (404, None),
    "edits_patch": (404, {"priority": "high"}),
    "jobs_delete": (404, None),
    "jobs_run": (404, None),
    "jobs_pause": (404, None),
    "jobs_resume": (404, None),
    "executions_index": (404, None),
    "executions_show": (404, None),
    "cancelling_cancel_all": (404, None),
    "cancelling_cancel_one": (404, None),
    "graphs_run_again": (404, {"downstream": True}),
    "graphs_around": (404, None),
    "graphs_run": (404, None),
    "schedules_upcoming": (404, None),
    "schedules_explain_time": (404, None),
    "schedules_preview": (200, {"schedule_expr": "every 5m", "job_id": FOREIGN}),
    "backfills_create": (404, RANGE),
    "backfills_show": (404, None),
    "backfills_cancel": (404, None),
    "letters_show": (404, None),
    "letters_discard": (404, None),
    "letters_redrive": (404, None),
    "secrets_create_of_job": (404, None),
    "secrets_index_of_job": (404, None),
    "secrets_delete_of_job": (404, None),
    "groups_show": (404, None),
    "groups_pause": (404, None),
    "groups_resume": (404, None),
    "groups_delete": (404, None),
    "secrets_create_of_group": (404, None),
    "secrets_index_of_group": (404, None),
    "secrets_delete_of_group": (404, None),
    "bulk_delete": (200, FOREIGN),
}
"""Operation on one thing → how it answers for one that is not there, and its body."""
LISTS: dict[str, Any] = {
    "jobs_index": None,
    "executions_index_all": None,
    "groups_index": None,
    "letters_index": None,
    "letters_redrive_many": {"all": True},
    "letters_discard_many": {"all": True},
    "events_listen": None,
}
"""Operation on many things → its body. With things of others it answers as with nothing."""
MADE = {"jobs_create", "edits_put", "bulk_create", "declared_plan", "declared_apply"}
"""Operations that make things, which have tests of their own: test_api_tenants.py."""
SHARED = {"calendars_index", "calendars_show"}
"""What all may look at, since schedules name it."""

SCOPED = [operation for operation in OPERATIONS if operation.scope is not None]
GROUPED = {operation.name: operation for operation in SCOPED if operation.by_group}
GLOBAL = [operation for operation in SCOPED if not operation.by_group]


def path_of(operation: Operation, job_id: str = FOREIGN, nominal_at: int = NOW) -> str:
    group = "b" if job_id == FOREIGN else "z"
    path = operation.path.format(
        job_id=job_id,
        execution_id=f"{job_id}@{nominal_at}",
        group=group,
        time=nominal_at,
        name="office",
        queue="default",
        host="example.com",
        key_id="0" * 16,
        secret_id="1",
        token="x",
        shard=0,
    )
    return f"{path}?at={NOW_TEXT}" if operation.path.endswith("/explain") else path


async def call(
    client: httpx.AsyncClient, key: str, operation: Operation, path: str, body: Any = None
) -> httpx.Response:
    takes = operation.handler.contract.takes
    headers = bearer(key)
    if takes == "application/json":
        return await client.request(operation.method, path, json=body, headers=headers)
    content = httpx.Request("POST", "http://x", json=body).content
    headers["Content-Type"] = takes
    return await client.request(operation.method, path, content=content, headers=headers)


# The table


def test_every_operation_that_keeps_to_groups_has_its_place_in_a_table_here() -> None:
    tables = {*BY_ID, *LISTS, *MADE, *SHARED}
    assert GROUPED.keys() <= tables, "say here what a restricted caller gets, and see it tested"


def test_operations_that_need_no_key_are_few() -> None:
    free = {operation.name for operation in OPERATIONS if operation.scope is None}
    assert free <= {
        "health_index",
        "health_healthz",
        "health_readyz",
        "openapi_show",
        "docs_show",
        "callbacks_report",
    }


@pytest.mark.parametrize("kind", ["wrong", "unknown", "expired", "revoked", "basic"])
async def test_without_a_good_key_all_are_answered_alike(
    world: World, clock: ManualClock, kind: str
) -> None:
    clock.advance(60_000)
    good, other = world.keys["admin"], world.keys["read"]
    headers = {
        "wrong": bearer(good[:-1] + ("A" if good[-1] != "A" else "B")),
        "unknown": bearer(f"wck_{'0' * 16}_{other[-43:]}"),
        "expired": bearer(world.keys["expired"]),
        "revoked": bearer(world.keys["revoked"]),
        "basic": {"Authorization": f"Basic {good}"},
    }[kind]
    for operation in SCOPED:
        path = path_of(operation)
        answer = await world.client.request(operation.method, path, headers=headers)
        problem = refused(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
        bare = await world.client.request(operation.method, path)
        assert (answer.content, answer.headers) == (bare.content, bare.headers)
        assert not any(key in problem["detail"] for key in world.keys.values())


@pytest.mark.parametrize(
    ("kind", "scopes"),
    [
        ("read", {Scope.READ}),
        ("write", {Scope.READ, Scope.WRITE}),
        ("worker", {Scope.WORKER}),
        ("admin", {*Scope}),
    ],
)
async def test_a_scope_lets_do_what_it_says_and_nothing_else(
    world: World, kind: str, scopes: set[Scope]
) -> None:
    # A body of no type that is taken: what is let in goes no further, unless it is a GET.
    headers = {**bearer(world.keys[kind]), "Content-Type": "text/plain"}
    for operation in SCOPED:
        is_let = operation.scope in scopes
        if operation.handler.contract.is_open and is_let:
            continue  # it would never end
        answer = await world.client.request(
            operation.method, path_of(operation, ABSENT), headers=headers, content=b"x"
        )
        assert (answer.status_code != 403) is is_let, (operation.name, answer.text)
        if not is_let:
            assert str(operation.scope) in refused(answer, 403, "forbidden")["detail"]


async def test_what_is_of_all_groups_is_shut_to_a_restricted_key(world: World) -> None:
    for operation in GLOBAL:
        answer = await call(world.client, world.keys["a"], operation, path_of(operation))
        refused(answer, 403, "forbidden")


@pytest.mark.parametrize("name", [name for name in BY_ID if name in GROUPED])
async def test_what_others_have_is_as_if_it_were_not_there(
    world: World, store: Store, keyspace: Read, name: str
) -> None:
    await settle_foreign(world, store)
    before = await keyspace()
    operation, (status, body) = GROUPED[name], BY_ID[name]
    for nominal_at in (NOW, NOW + 1):
        answers = []
        for job_id in (FOREIGN, ABSENT):
            sent = ABSENT if body == FOREIGN and job_id == ABSENT else body
            if isinstance(body, dict) and "job_id" in body:
                sent = {**body, "job_id": job_id}
            path = path_of(operation, job_id, nominal_at)
            answer = await call(world.client, world.keys["a"], operation, path, sent)
            assert answer.status_code == status, answer.text
            answers.append(told(answer, job_id))
        assert answers[0] == answers[1]
    assert await keyspace() == before


@pytest.mark.parametrize("name", [name for name in BY_ID if name in GROUPED])
async def test_what_one_has_is_there(world: World, store: Store, name: str) -> None:
    await settle_foreign(world, store)
    operation, (status, body) = GROUPED[name], BY_ID[name]
    answers = [
        await call(world.client, world.keys["b"], operation, path_of(operation, at, nominal), body)
        for at, nominal in ((FOREIGN, NOW), (FOREIGN, NOW + 1))
    ]
    missing = await call(world.client, world.keys["b"], operation, path_of(operation, ABSENT), body)
    texts = [answer.text.replace(FOREIGN, "…") for answer in answers]
    if status == 404 and not name.startswith("secrets_delete"):
        assert any(text != missing.text.replace(ABSENT, "…") for text in texts)
    assert all(answer.status_code < 500 for answer in answers)


@pytest.mark.parametrize("name", [name for name in LISTS if name in GROUPED])
async def test_lists_hold_nothing_of_others(
    world: World, store: Store, keyspace: Read, name: str
) -> None:
    operation, body = GROUPED[name], LISTS[name]
    if operation.handler.contract.is_open:
        pytest.skip("a stream: its own tests look at what it shows to whom")
    key, path = world.keys["a"], path_of(operation)
    empty = await call(world.client, key, operation, path, body)
    assert empty.status_code == 200, empty.text
    await settle_foreign(world, store)
    before = await keyspace()
    full = await call(world.client, key, operation, path, body)
    assert told(full, FOREIGN) == told(empty, FOREIGN)
    assert await keyspace() == before
    theirs = await call(world.client, world.keys["b"], operation, path, body)
    assert theirs.text != empty.text


# Pages: where to go on must not name what others have


async def all_pages(world: World, path: str, limit: int) -> tuple[list[str], str]:
    """Return the ids on all pages that the key of group a is shown, and all that it was told."""
    found: list[str] = []
    told, url = "", f"{path}{'&' if '?' in path else '?'}limit={limit}"
    for _ in range(50):
        answer = await world.client.get(url, headers=bearer(world.keys["a"]))
        assert answer.status_code == 200, answer.text
        told += answer.text + answer.headers.get("link", "")
        page = answer.json()
        found += [one["job_id"] for one in (page["jobs"] if isinstance(page, dict) else page)]
        if "link" not in answer.headers:
            return found, told
        url = answer.headers["link"].partition(">")[0][1:]
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_pages_lead_past_what_others_have_without_naming_it(
    world: World, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(search, "MOST_LOOK", 1)
    monkeypatch.setattr(search, "LOOK_LIMIT", 2)
    monkeypatch.setattr(recent, "LOOK_LIMIT", 2)
    monkeypatch.setattr(letter_search, "SCAN_LIMIT", 3)
    monkeypatch.setattr(letter_search, "CHUNK", 2)
    own = []
    for n in range(12):
        group = "a" if n in (3, 7, 8) else "b"
        name = f"{'own' if group == 'a' else 'theirs'}-{n}"
        body = {"job_id": name, "group": group, "target": {"type": "worker"}}
        admin = bearer(world.keys["admin"])
        assert (await world.client.post("/v1/jobs", json=body, headers=admin)).status_code == 201
        # Some die in the same millisecond.
        await die(store, await delivered(store, name), NOW + n // 3)
        own += [name] if group == "a" else []
    for path in ("/v1/dead", "/v1/jobs", "/v1/executions"):
        found, told = await all_pages(world, path, limit)
        assert sorted(found) == own, path
        assert "theirs" not in told, path


async def test_pages_of_a_tag_lead_past_what_others_have_without_naming_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_LOOK", 1)
    monkeypatch.setattr(search, "LOOK_LIMIT", 1)
    # The list of those with the tag is shorter than the one of the group.
    for n in range(24):
        name, group = (f"theirs-{n}", "b") if n % 6 == 0 else (f"own-{n}", "a")
        body = {"job_id": name, "group": group, "target": {"type": "worker"}}
        body |= {"tags": ["t"]} if n % 6 == 0 or n in (2, 22) else {}
        admin = bearer(world.keys["admin"])
        assert (await world.client.post("/v1/jobs", json=body, headers=admin)).status_code == 201
    found, told = await all_pages(world, "/v1/jobs?tag=t", 1)
    assert sorted(found) == ["own-2", "own-22"]
    assert "theirs" not in told
