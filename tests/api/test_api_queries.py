"""Queries, whatever the operation: what it does not know, and what is given again, it refuses."""

from __future__ import annotations

import re
from typing import get_origin

import calling
import httpx
import pytest
from calling import CRON, create, refused

from api.openapi_words import PATH_PARAMETERS
from api.operations import Operation
from api.routes import OPERATIONS
from engine.store.jobs import MAX_PAGE

client, clock = calling.client, calling.clock

_WITH_QUERY = [op for op in OPERATIONS if op.handler.contract.query is not None]


def path_of(operation: Operation) -> str:
    """Return the operation's path with something that can stand in it."""
    return re.sub(
        r"{(\w+)}",
        lambda found: PATH_PARAMETERS.get(found[1], {}).get("examples", ["0"])[0],
        operation.path,
    )


async def refused_query(client: httpx.AsyncClient, operation: Operation, query: str) -> str:
    """Return the parameter that is at fault."""
    content_type = operation.handler.contract.takes
    answer = await client.request(
        operation.method,
        f"{path_of(operation)}?{query}",
        headers={"Content-Type": content_type},
        content=b"{}",
    )
    [fault] = refused(answer, 400, "bad_input")["errors"]
    return str(fault["parameter"])


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_parameter_that_no_operation_has_is_refused(
    client: httpx.AsyncClient, operation: Operation
) -> None:
    needed = "at=2027-01-15T08:00:00Z&" if operation.name == "schedules_explain_time" else ""
    assert await refused_query(client, operation, f"{needed}surprise=1") == "surprise"


@pytest.mark.parametrize("operation", _WITH_QUERY, ids=lambda operation: operation.name)
async def test_a_parameter_that_is_given_again_is_refused(
    client: httpx.AsyncClient, operation: Operation
) -> None:
    model = operation.handler.contract.query
    assert model is not None
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is not list:
            name = field.alias or name
            assert await refused_query(client, operation, f"{name}=1&{name}=1") == name


async def test_a_number_out_of_bounds_is_told_the_bound(client: httpx.AsyncClient) -> None:
    for limit, bound in (("-1", "equal to 1"), ("0", "equal to 1"), ("1000000000", f"{MAX_PAGE}")):
        answer = await client.get("/v1/jobs", params={"limit": limit})
        [fault] = refused(answer, 400, "bad_input")["errors"]
        assert fault["detail"].endswith(bound)
    for limit in ("x", "1.0", "+1", "1e3", "1_0", "٣", "9" * 5_000):
        answer = await client.get("/v1/jobs", params={"limit": limit})
        [fault] = refused(answer, 400, "bad_input")["errors"]
        assert fault["detail"] == "this must be a whole number"


async def test_an_unknown_parameter_is_called_one(client: httpx.AsyncClient) -> None:
    for path in ("/v1/jobs", "/healthz"):
        answer = await client.get(path, params={"surprise": "1"})
        [fault] = refused(answer, 400, "bad_input")["errors"]
        assert fault == {"parameter": "surprise", "detail": "there is no such query parameter"}


async def test_a_list_may_be_given_again(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "tags": ["a", "b"]})
    answer = await client.get("/v1/jobs", params={"tag": ["a", "b"]})
    assert [job["job_id"] for job in answer.json()["jobs"]] == ["report"]


async def test_a_query_without_any_name_is_refused(client: httpx.AsyncClient) -> None:
    refused(await client.get("/healthz?&"), 400, "bad_input")
