"""What the importers draft is taken by the API as it is, and what is switched off never fires."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import calling
import httpx
import pytest
from calling import NOW

from api import schemas
from engine.cli.client import Api, Refused
from engine.cli.import_jobs import register_all
from engine.clock import ManualClock
from engine.importers import (
    Draft,
    Imported,
    Options,
    apscheduler,
    entry,
    read_from,
    recognise_source,
)

client = calling.client
clock = calling.clock

SAMPLES = Path(__file__).parents[1] / "unit" / "data" / "importers"
FILES = sorted(path for path in SAMPLES.iterdir() if path.suffix != ".txt")


class Bridge(Api):
    """The command line's API over the test's own client, from another thread."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        super().__init__("http://localhost")
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.sent: list[tuple[str, str, Any]] = []

    def _exchange(
        self, method: str, path: tuple[str, ...], *, body: object = None, **more: Any
    ) -> tuple[Any, Mapping[str, str]]:
        url = "/".join(("/v1", *path))
        self.sent.append((method, url, body))
        asking = self._client.request(method, url, json=body)
        answer = asyncio.run_coroutine_threadsafe(asking, self._loop).result(10)
        if answer.is_error:
            raise Refused(answer.json())
        return answer.json(), answer.headers


def drafts_of(path: Path, **options: Any) -> Imported:
    text = path.read_text()
    return read_from(recognise_source(text, path.name), text, Options(NOW, **options))


@pytest.mark.parametrize("options", [{}, {"url": "https://example.com/run"}])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
async def test_every_draft_of_every_sample_is_a_job(
    client: httpx.AsyncClient, path: Path, options: dict[str, Any]
) -> None:
    drafts = drafts_of(path, **options).drafts
    assert drafts
    for draft in drafts:
        answer = await client.post("/v1/jobs", json=draft.body)
        assert answer.status_code == 201, answer.text
        job = answer.json()
        assert {name: job[name] for name in ("job_id", "schedule_expr", "dialect")} == {
            name: draft.body[name] for name in ("job_id", "schedule_expr", "dialect")
        }
        assert job["next_run_at"]


async def test_commands_and_placeholders_are_taken_too(client: httpx.AsyncClient) -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:invoices"
    target = {"type": "http", "url": "https://example.com/invoices"}
    found = [
        *drafts_of(SAMPLES / "kubernetes.yaml", shell=True).drafts,
        *drafts_of(SAMPLES / "eventbridge.json", targets={arn: target}).drafts,
    ]
    types = []
    for draft in found:
        answer = await client.post("/v1/jobs", json=draft.body)
        assert answer.status_code == 201, answer.text
        types.append((answer.json()["target"]["type"], answer.json()["target"].get("template")))
    assert types == [("shell", None), ("http", True), ("worker", None)]


def every_minute(**more: Any) -> Draft:
    timing = {"schedule_expr": "* * * * *", "dialect": "vixie", "timezone": "UTC"}
    return Draft(
        "here", {"job_id": "it", "target": {"type": "worker"}, **timing, **more}, paused=True
    )


async def test_what_is_switched_off_is_paused_from_its_first_moment(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    bridge = Bridge(client)
    end_at = "2027-06-01T00:00:00.000Z"
    draft = every_minute(end_at=end_at)
    [row] = await asyncio.to_thread(lambda: list(register_all(bridge, [draft], "keep")))
    assert (row.status, row.next_run_at) == ("created", None)
    (_, _, first), *_ = bridge.sent
    assert first["paused"]
    job = (await client.get("/v1/jobs/it")).json()
    assert (job["state"], job["start_at"], job["end_at"]) == ("paused", None, end_at)
    clock.advance(60_000)
    resumed = (await client.post("/v1/jobs/it/resume")).json()
    assert resumed["next_run_at"] == "2027-01-15T08:02:00.000Z"


@pytest.mark.parametrize("state", ["active", "paused"])
async def test_a_job_is_replaced_and_paused_whatever_it_was(
    client: httpx.AsyncClient, state: str
) -> None:
    bridge = Bridge(client)
    old = {**every_minute().body, "schedule_expr": "0 9 * * *"}
    await client.post("/v1/jobs", json=old)
    if state == "paused":
        await client.post("/v1/jobs/it/pause")
    [kept] = await asyncio.to_thread(lambda: list(register_all(bridge, [every_minute()], "keep")))
    assert kept.status == "exists"
    [row] = await asyncio.to_thread(lambda: list(register_all(bridge, [every_minute()], "replace")))
    assert row.status == "replaced"
    job = (await client.get("/v1/jobs/it")).json()
    assert (job["state"], job["schedule_expr"]) == ("paused", "* * * * *")


def test_the_importers_keep_to_the_bounds_of_the_api() -> None:
    assert entry.LONGEST_LIFE_MS == schemas.LONGEST_LIFE_MS
    assert entry.MOST_HANDLER_CHARS == schemas.MOST_HANDLER_CHARS
    assert apscheduler.MOST_CONCURRENT == schemas.MOST_CONCURRENT
