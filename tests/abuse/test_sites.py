"""Pages of other sites in a browser of the machine: row 105 of the list of abuses."""

from __future__ import annotations

import httpx
import pytest
from calling import CRON, Read, calling, create, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace

from engine.clock import ManualClock
from engine.store import Store


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:8787"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
    ],
    ids=lambda headers: "{}: {}".format(*next(iter(headers.items()))),
)
@pytest.mark.parametrize("path", ["/v1/jobs/report/run", "/v1/jobs"])
async def test_row_105_a_page_of_another_site_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read, headers: dict[str, str], path: str
) -> None:
    await create(client, CRON)
    before = await keyspace()
    answer = await client.post(path, headers=headers)
    refused(answer, 403, "cross_site")
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    refused(await client.post(path, headers=form, content=b"a=b"), 403, "cross_site")
    assert await keyspace() == before


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", ""])
async def test_row_105_a_page_that_renames_us_reads_nothing(
    client: httpx.AsyncClient, host: str
) -> None:
    refused(await client.get("/v1/jobs", headers={"Host": host}), 403, "cross_site")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "127.0.0.1:8787"},
        {"Host": "[::1]:8787"},
        {"Host": "LOCALHOST:9"},
        {"Host": "clock.example"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        {"Host": "clock.example", "Origin": "https://clock.example"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
async def test_row_105_ones_own_tools_and_pages_are_let_in(
    store: Store, clock: ManualClock, headers: dict[str, str]
) -> None:
    config = store.config.model_copy(update={"public_url": "https://clock.example/"})
    async with calling(config, store, clock) as client:
        answer = await client.post("/v1/jobs", json=CRON, headers=headers)
        assert answer.status_code == 201
        assert "access-control-allow-origin" not in answer.headers


async def test_row_105_what_a_proxy_says_of_the_caller_is_not_believed(
    client: httpx.AsyncClient,
) -> None:
    headers = {"Host": "evil.example", "X-Forwarded-Host": "localhost", "Forwarded": "host=::1"}
    refused(await client.get("/v1/jobs", headers=headers), 403, "cross_site")
