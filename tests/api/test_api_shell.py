"""Shell targets over HTTP: what is taken, what is shown, and what each field refuses."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import Read, create, pointers

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

SHELL: dict[str, Any] = {"type": "shell", "command": "echo"}
SECRET = "hunter2"
LONGEST = 128 * 1024 - 1
EVERYTHING = {
    "type": "shell",
    "command": "a | b",
    "cwd": "/srv",
    "env": {"A": "1", "_b2": ""},
    "stdin": "in\n",
    "user": "www-data",
    "timeout_ms": 7 * 86_400_000,
}


def body(target: dict[str, Any]) -> dict[str, Any]:
    return {"job_id": "sh", "schedule_expr": "@daily", "target": target}


async def test_a_shell_job_goes_to_its_queue_with_every_field(client: httpx.AsyncClient) -> None:
    job = await create(client, body(EVERYTHING))
    assert (job["target"], job["queue"]) == (EVERYTHING, "shell")
    assert (await client.get("/v1/jobs/sh")).json()["target"] == EVERYTHING


async def test_a_shell_job_needs_no_more_than_a_command(client: httpx.AsyncClient) -> None:
    job = await create(client, body(SHELL))
    nothing: dict[str, Any] = {"cwd": None, "env": {}, "stdin": None, "user": None}
    assert job["target"] == {**SHELL, **nothing, "timeout_ms": 3_600_000}


async def test_a_patch_may_make_a_shell_job_of_another_and_moves_it(
    client: httpx.AsyncClient,
) -> None:
    await create(client, body({"type": "worker"}))
    job = (await client.patch("/v1/jobs/sh", json={"target": SHELL})).json()
    assert (job["target"]["command"], job["queue"]) == ("echo", "shell")
    job = (await client.patch("/v1/jobs/sh", json={"target": {"cwd": "/"}})).json()
    assert (job["target"]["cwd"], job["queue"]) == ("/", "shell")


@pytest.mark.parametrize(
    "more",
    [
        {"command": "é" * (LONGEST // 2)},
        {"cwd": "/" + "x" * 4_094},
        {"env": {f"A{n}": "" for n in range(100)}},
        {"env": {"A": "x" * (LONGEST - 2)}},
        {"stdin": "x" * 65_536},
        {"user": "a" * 64 + "$"},
        {"timeout_ms": 100},
    ],
)
async def test_what_is_just_within_bounds_is_taken(
    client: httpx.AsyncClient, more: dict[str, Any]
) -> None:
    await create(client, body({**SHELL, **more}))


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"command": ""}, "/target/command"),
        ({"command": " \n"}, "/target/command"),
        ({"command": ["echo"]}, "/target/command"),
        ({"command": f"{SECRET}\0"}, "/target/command"),
        ({"command": "é" * (LONGEST // 2 + 1)}, "/target/command"),
        ({"cwd": ""}, "/target/cwd"),
        ({"cwd": "srv"}, "/target/cwd"),
        ({"cwd": "/\0"}, "/target/cwd"),
        ({"cwd": "/" + "x" * 4_095}, "/target/cwd"),
        ({"env": ["A=1"]}, "/target/env"),
        ({"env": {f"A{n}": "" for n in range(101)}}, "/target/env"),
        ({"env": {"A": f"{SECRET}\0"}}, "/target/env"),
        ({"env": {"A": SECRET + "x" * LONGEST}}, "/target/env"),
        ({"env": {"A": "x" * (LONGEST - 1)}}, "/target/env"),
        ({"env": {"A": 1}}, "/target/env/A"),
        ({"env": {"": ""}}, "/target/env/"),
        ({"env": {"1A": ""}}, "/target/env/1A"),
        ({"env": {"A-B": ""}}, "/target/env/A-B"),
        ({"env": {"A=B": ""}}, "/target/env/A=B"),
        ({"env": {"WATERCLOCK_JOB_ID": ""}}, "/target/env/WATERCLOCK_JOB_ID"),
        ({"stdin": 5}, "/target/stdin"),
        ({"stdin": "\0"}, "/target/stdin"),
        ({"stdin": "x" * 65_537}, "/target/stdin"),
        ({"user": ""}, "/target/user"),
        ({"user": "a b"}, "/target/user"),
        ({"user": "0"}, "/target/user"),
        ({"user": "-a"}, "/target/user"),
        ({"user": "a" * 65}, "/target/user"),
        ({"timeout_ms": 99}, "/target/timeout_ms"),
        ({"timeout_ms": 7 * 86_400_000 + 1}, "/target/timeout_ms"),
        ({"url": "http://example.com/"}, "/target/url"),
    ],
)
async def test_a_wrong_field_is_refused_naming_it_and_not_its_value(
    client: httpx.AsyncClient, keyspace: Read, more: dict[str, Any], pointer: str
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json=body({**SHELL, **more}))
    assert answer.status_code == 400
    assert pointers(answer.json()) == [pointer]
    assert SECRET not in answer.text
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("target", "queue"),
    [(SHELL, "http"), ({"type": "worker"}, "shell")],
)
async def test_a_shell_job_and_its_queue_are_for_each_other(
    client: httpx.AsyncClient, target: dict[str, Any], queue: str
) -> None:
    answer = await client.post("/v1/jobs", json={**body(target), "queue": queue})
    assert pointers(answer.json()) == ["/queue"]
