"""Graphs of jobs that cannot be: row 108 of the list of abuses.

An edge to another tenant is in test_tenants.py. How many depend on a job, and how deep a graph is,
has no bound: an end goes down one level at a time, in steps that have one.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from calling import AT_ONCE, CRON, create, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace


def dependent(*upstreams: str, **more: Any) -> dict[str, Any]:
    return {**AT_ONCE, "job_id": "below", "depends_on": [*upstreams], **more}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (dependent("below", allow_missing=True), 400, "bad_input"),
        (dependent("above", job_id="top"), 409, "cycle"),
        (dependent(*(f"up{n}" for n in range(10_000))), 400, "bad_input"),
        (dependent("nobody"), 400, "bad_input"),
    ],
    ids=["itself", "a circle", "10,000 upstream jobs", "one that is missing"],
)
async def test_row_108_a_graph_that_cannot_be_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    await create(client, {**CRON, "job_id": "top"})
    await create(client, dependent("top", job_id="above"))
    answer = await client.put(f"/v1/jobs/{body['job_id']}", json=body)
    refused(answer, status, code)
