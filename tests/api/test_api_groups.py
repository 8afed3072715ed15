"""Tags, the search in jobs, and groups over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, MINUTE, Read, create, refused

from api import groups, jobs
from engine.access import Caller, Scope
from engine.clock import ManualClock

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

EVERY: dict[str, Any] = {"schedule_expr": "every 1m", "target": {"type": "worker"}}


async def ids_of(client: httpx.AsyncClient, **query: Any) -> str:
    answer = await client.get("/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return " ".join(job["job_id"] for job in answer.json()["jobs"])


async def make(client: httpx.AsyncClient) -> None:
    await create(client, {**EVERY, "job_id": "a", "group": "acme", "tags": ["eu", "x"]})
    await create(client, {**EVERY, "job_id": "b", "group": "acme", "tags": ["eu"], "queue": "mail"})
    await create(client, {**EVERY, "job_id": "c", "group": "umbra", "payload": [1, 2]})
    await create(client, {**AT_ONCE, "job_id": "d", "tags": ["x"]})


# Tags


async def test_tags_are_kept_in_their_order_and_shown(client: httpx.AsyncClient) -> None:
    created = await create(client, {**CRON, "tags": ["nightly", "eu", "A.b_c-1"]})
    assert created["tags"] == ["nightly", "eu", "A.b_c-1"]
    assert (await client.get("/v1/jobs/report")).json()["tags"] == created["tags"]


async def test_a_patch_sets_tags_and_null_takes_them_away(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "tags": ["eu"]})
    for patch, tags in ({"tags": ["us"]}, ["us"]), ({"payload": 1}, ["us"]), ({"tags": None}, []):
        answer = await client.patch("/v1/jobs/report", json=patch)
        assert answer.json()["tags"] == tags
    assert await ids_of(client, tag="us") == ""


@pytest.mark.parametrize(
    ("tags", "pointer"),
    [
        (["ok", ""], "/tags/1"),
        (["a b"], "/tags/0"),
        (["a", "b", "a"], "/tags/2"),
        (["-a"], "/tags/0"),
        (["é"], "/tags/0"),
        (["a" * 65], "/tags/0"),
        ([1], "/tags/0"),
        ("eu", "/tags"),
        ([f"t{n}" for n in range(21)], "/tags"),
    ],
)
async def test_wrong_tags_are_refused_by_name(
    client: httpx.AsyncClient, keyspace: Read, tags: Any, pointer: str
) -> None:
    answer = await client.post("/v1/jobs", json={**CRON, "tags": tags})
    assert calling.pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert not any(await keyspace())


async def test_twenty_tags_are_taken(client: httpx.AsyncClient) -> None:
    tags = [f"t{n}" for n in range(20)]
    assert (await create(client, {**CRON, "tags": tags}))["tags"] == tags


# Search


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, "a b c d"),
        ({"group": "acme"}, "a b"),
        ({"tag": "x"}, "a d"),
        ({"tag": ["x", "eu"]}, "a"),
        ({"state": "completed"}, "d"),
        ({"state": "paused"}, ""),
        ({"queue": "mail"}, "b"),
        ({"group": "acme", "queue": "mail", "tag": "eu", "prefix": "b"}, "b"),
        ({"due_before": "2027-01-15T08:01:00.001Z"}, "a b c"),
        ({"due_before": "2027-01-15T08:01:00Z"}, ""),
        ({"due_after": "2027-01-15T08:01:00.001Z"}, ""),
        ({"due_after": "2027-01-15T09:01:00+01:00"}, "a b c"),
    ],
)
async def test_jobs_are_found_by_all_that_is_asked(
    client: httpx.AsyncClient, query: dict[str, Any], found: str
) -> None:
    await make(client)
    assert await ids_of(client, **query) == found


async def test_link_leads_through_all_pages_with_what_was_asked(client: httpx.AsyncClient) -> None:
    await make(client)
    url, found = "/v1/jobs?tag=x&tag=eu&limit=1&tag=z", []
    await client.patch("/v1/jobs/a", json={"tags": ["x", "eu", "z"]})
    await client.patch("/v1/jobs/c", json={"tags": ["z", "eu", "x"]})
    while url:
        answer = await client.get(url)
        page = answer.json()
        found += [job["job_id"] for job in page["jobs"]]
        url = answer.links.get("next", {}).get("url", "")
        query = parse_qs(urlsplit(url).query)
        assert query.get("after") == ([page["next"]] if page["next"] else None)
        assert not url or query["tag"] == ["x", "eu", "z"]
    assert found == ["a", "c"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("limit=1e9", "limit"),
        ("after=..%2F", "after"),
        ("after=%00", "after"),
        ("group=a%20b", "group"),
        ("group=", "group"),
        ("tag=a%20b", "tag"),
        ("tag=a&tag=a", "tag"),
        ("state=dead", "state"),
        ("queue=a%2Fb", "queue"),
        ("due_after=tomorrow", "due_after"),
        ("due_before=2027-01-15T08:00:00", "due_before"),
        ("colour=red", "colour"),
    ],
)
async def test_a_wrong_parameter_is_named(
    client: httpx.AsyncClient, query: str, parameter: str
) -> None:
    problem = refused(await client.get(f"/v1/jobs?{query}"), 400, "bad_input")
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


# Groups


async def test_groups_are_listed_with_what_they_hold(client: httpx.AsyncClient) -> None:
    await make(client)
    answer = await client.get("/v1/groups")
    assert answer.json() == [
        {"group": "acme", "jobs": 2, "payload_bytes": 8},
        {"group": "umbra", "jobs": 1, "payload_bytes": 5},
    ]
    first = await client.get("/v1/groups?limit=1")
    assert [group["group"] for group in first.json()] == ["acme"]
    following = await client.get(first.links["next"]["url"])
    assert [group["group"] for group in following.json()] == ["umbra"]
    assert following.links == {}


async def test_a_group_is_shown_with_the_states_of_its_jobs(client: httpx.AsyncClient) -> None:
    await make(client)
    await client.post("/v1/jobs/a/pause")
    assert (await client.get("/v1/groups/acme")).json() == {
        "group": "acme",
        "jobs": 2,
        "payload_bytes": 8,
        "states": {"active": 1, "paused": 1, "completed": 0},
        "states_are_exact": True,
    }


async def test_a_group_is_paused_with_a_note_and_nothing_else_is(
    client: httpx.AsyncClient,
) -> None:
    await make(client)
    answer = await client.post("/v1/groups/acme/pause", json={"note": "unpaid"})
    assert answer.json() == {
        "changed": 2,
        "unchanged": 0,
        "failed": 0,
        "first_failed": [],
        "left": 0,
        "next": None,
    }
    assert await ids_of(client, state="paused") == "a b"
    assert (await client.get("/v1/jobs/b")).json()["pause_note"]["note"] == "unpaid"
    assert (await client.post("/v1/groups/acme/pause")).json()["unchanged"] == 2


async def test_a_dry_run_of_a_resume_says_what_the_resume_then_does(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await make(client)
    await client.post("/v1/groups/acme/pause")
    clock.advance(5 * MINUTE)
    wanted = {"misfire": "fire_all", "note": "paid"}
    dry = (await client.post("/v1/groups/acme/resume", json={**wanted, "dry_run": True})).json()
    assert await ids_of(client, state="paused") == "a b"
    done = (await client.post("/v1/groups/acme/resume", json=wanted)).json()
    assert dry.pop("dry_run") is not done.pop("dry_run") is False
    assert dry == done
    assert (done["changed"], done["starts"], done["skipped"]) == (2, 10, 0)
    assert done["skipped_is_exact"] is True
    assert await ids_of(client, state="paused") == ""


async def test_steps_lead_to_the_end_of_a_group(client: httpx.AsyncClient) -> None:
    await calling.create_many(client, 5, "job", group="acme", **EVERY)
    changed, left, after = 0, [], ""
    while after is not None:
        body = {"limit": 2, "after": after}
        step = (await client.post("/v1/groups/acme/pause", json=body)).json()
        changed += step["changed"]
        left.append(step["left"])
        after = step["next"]
    assert (changed, left) == (5, [3, 1, 0])


async def test_a_group_is_deleted_in_steps_and_is_gone(client: httpx.AsyncClient) -> None:
    await make(client)
    step = (await client.delete("/v1/groups/acme?limit=1")).json()
    assert (step["changed"], step["left"], step["next"]) == (1, 1, "a")
    step = (await client.delete("/v1/groups/acme?limit=1&after=a")).json()
    assert (step["changed"], step["left"], step["next"]) == (1, 0, None)
    assert await ids_of(client) == "c d"
    refused(await client.delete("/v1/groups/acme"), 404, "not_found")
    # The step that finds nothing more is no refusal: somebody else was faster.
    assert (await client.delete("/v1/groups/acme?after=a")).json()["changed"] == 0


async def test_jobs_that_could_not_be_deleted_are_named_with_their_code(
    client: httpx.AsyncClient,
) -> None:
    await make(client)
    await create(client, {**AT_ONCE, "job_id": "e", "depends_on": ["a"]})
    step = (await client.delete("/v1/groups/acme")).json()
    assert (step["changed"], step["failed"]) == (1, 1)
    [failure] = step["first_failed"]
    assert (failure["job_id"], failure["code"]) == ("a", "has_dependents")
    assert "e" in failure["detail"]
    assert (await client.delete("/v1/groups/acme?dependents=detach")).json()["changed"] == 1
    assert await ids_of(client) == "c d e"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/groups/nobody"),
        ("POST", "/v1/groups/nobody/pause"),
        ("POST", "/v1/groups/nobody/resume"),
        ("DELETE", "/v1/groups/nobody"),
        ("GET", "/v1/groups/a%20b"),
        ("POST", "/v1/groups/%7Bx%7D/pause"),
        ("DELETE", "/v1/groups/..%2Fjobs"),
    ],
)
async def test_a_group_that_is_not_there_is_not_found(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    await make(client)
    refused(await client.request(method, path), 404, "not_found")
    assert await ids_of(client, state="active") == "a b c"


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("pause", {"limit": 0}, "/limit"),
        ("pause", {"limit": 10_001}, "/limit"),
        ("pause", {"after": "a b"}, "/after"),
        ("pause", {"note": "x" * 501}, "/note"),
        ("pause", {"dry_run": True}, "/dry_run"),
        ("resume", {"misfire": "never"}, "/misfire"),
        ("resume", {"dry_run": "yes"}, "/dry_run"),
    ],
)
async def test_a_wrong_field_of_a_step_is_named_and_nothing_is_changed(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], pointer: str
) -> None:
    await make(client)
    answer = await client.post(f"/v1/groups/acme/{path}", json=body)
    assert calling.pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await ids_of(client, state="paused") == ""


@pytest.mark.parametrize("query", ["dependents=keep", "limit=0", "limit=x", "after=%00"])
async def test_a_wrong_parameter_deletes_nothing(client: httpx.AsyncClient, query: str) -> None:
    await make(client)
    problem = refused(await client.delete(f"/v1/groups/acme?{query}"), 400, "bad_input")
    assert [fault["parameter"] for fault in problem["errors"]] == [query.partition("=")[0]]
    assert await ids_of(client, group="acme") == "a b"


# Callers who see some groups alone


def restrict(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on all requests come from a caller who sees the group `umbra` alone."""
    caller = Caller("ana", frozenset({Scope.WRITE}), frozenset({"umbra"}))
    for module in (jobs, groups):
        monkeypatch.setattr(module, "caller_of", lambda _: caller)


async def test_a_restricted_caller_finds_the_jobs_of_its_groups(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(client)
    restrict(monkeypatch)
    assert await ids_of(client) == "c"
    assert await ids_of(client, group="umbra") == "c"
    assert await ids_of(client, group="acme") == ""
    assert await ids_of(client, tag="x") == ""
    assert [group["group"] for group in (await client.get("/v1/groups")).json()] == ["umbra"]


async def test_a_restricted_caller_touches_no_other_group(
    client: httpx.AsyncClient, keyspace: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(client)
    restrict(monkeypatch)
    before = await keyspace()
    there = refused(await client.get("/v1/groups/acme"), 404, "not_found")
    absent = refused(await client.get("/v1/groups/nobody"), 404, "not_found")
    assert there["detail"].replace("acme", "nobody") == absent["detail"]
    refused(await client.post("/v1/groups/acme/pause"), 404, "not_found")
    refused(await client.post("/v1/groups/acme/resume"), 404, "not_found")
    refused(await client.delete("/v1/groups/acme"), 404, "not_found")
    assert await keyspace() == before
    assert (await client.post("/v1/groups/umbra/pause")).json()["changed"] == 1
