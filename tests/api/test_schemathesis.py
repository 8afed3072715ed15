"""Schemathesis reads the document, tries every operation with data that it allows and data that it
forbids, over real HTTP with a key, and finds nothing.

The examples of the document, what covers each keyword of its schemas, and a few random cases for
each operation: the same ones in each run. A long run, with other ones each time:

    WATERCLOCK_FUZZ=300 python -m pytest tests/api/test_schemathesis.py
"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pytest
import schemathesis
from conftest import open_real
from generating import JOB, is_beyond_schemas
from hypothesis import HealthCheck, settings
from keyed import bearer, make_key
from schemathesis import BaseSchema, Case, Config
from schemathesis.checks import CheckFunction
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
)

from api.lines import NDJSON
from api.openapi import document
from api.routes import OPERATIONS
from api.server import serve
from engine.embedded import EmbeddedServer
from engine.keys import API_KEYS, LAYOUT
from engine.store import Store

EXAMPLES = int(os.environ.get("WATERCLOCK_FUZZ", "0"))
FEW = 20
"""Random cases for each operation, of data that is allowed and of data that is not."""

ENDLESS = tuple(op.path for op in OPERATIONS if op.handler.contract.is_open)
"""Streams: no answer to them is ever whole. tests/api/test_api_events.py reads them."""

LONELY: dict[str, set[CheckFunction]] = {
    # A job may be called `bulk`, so its methods are answered at that path, too.
    "POST /v1/jobs/bulk": {allow_header_conformance},
    "POST /v1/jobs/bulk-delete": {allow_header_conformance},
}
"""Operation → checks that do not go with it."""


def _schema() -> BaseSchema:
    seeded = Config(seed=None if EXAMPLES else 1)
    schema = schemathesis.openapi.from_dict(copy.deepcopy(document()), config=seeded)
    config = schema.config
    config.phases.coverage.generate_duplicate_query_parameters = True
    config.generation.update(
        max_examples=EXAMPLES or FEW,
        deterministic=not EXAMPLES,
        no_shrink=not EXAMPLES,
        with_security_parameters=False,  # the key is a real one
    )
    # What is said about what is there, and not about the form of a request.
    config.checks.positive_data_acceptance.expected_statuses += ["410", "412"]
    config.checks.negative_data_rejection.expected_statuses += ["410", "412", "413"]
    return schema.exclude(path=[*ENDLESS])


SCHEMA = _schema()


@dataclass(frozen=True)
class Served:
    url: str
    key: str
    store: Store
    loop: asyncio.AbstractEventLoop

    def clear(self) -> None:
        """Forget all but the key: what is done next begins with nothing."""
        asyncio.run_coroutine_threadsafe(self._clear(), self.loop).result(timeout=10)

    async def _clear(self) -> None:
        async for name in self.store.client.scan_iter():
            if name not in (API_KEYS.encode(), LAYOUT.encode()):
                await self.store.client.delete(name)


@pytest.fixture(scope="module")
def served(server: EmbeddedServer) -> Iterator[Served]:
    """An API over HTTP that asks for keys, in a thread, on an empty store; and a key."""
    started, loop, stop = Future[Served](), asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with open_real(server) as store:
            key = await make_key(store, "admin")
            config = store.config.model_copy(update={"port": 0, "auth": "required"})
            await serve(
                config,
                stop,
                store=store,
                on_listening=lambda port: started.set_result(
                    Served(f"http://127.0.0.1:{port}", key, store, loop)
                ),
            )

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    yield started.result(timeout=20)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture
def job(served: Served) -> None:
    """The job that the examples name, active and with an execution that waits."""
    body = {"schedule_expr": "0 9 * * *", "group": "billing", "target": {"type": "worker"}}
    with httpx.Client(base_url=served.url, headers=bearer(served.key)) as client:
        assert client.put(f"/v1/jobs/{JOB}", json=body).is_success
        client.post(f"/v1/jobs/{JOB}/resume")
        assert client.post(f"/v1/jobs/{JOB}/run").status_code == 202


@SCHEMA.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_schemathesis_finds_nothing(case: Case[Any], served: Served, job: None) -> None:
    _adapt(case)
    answer = case.call(base_url=served.url, headers=bearer(served.key))
    case.validate_response(answer, excluded_checks=[*_excused(case, answer)])


def test_schemathesis_finds_nothing_in_sequences(served: Served) -> None:
    """A job is made, looked at, deleted, and is gone: along the links of the document."""
    linked = ["jobs_create", "jobs_show", "jobs_delete", "executions_index"]

    class Sequence(_schema().include(operation_id=linked).as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            served.clear()

        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
            return {"base_url": served.url, "headers": bearer(served.key)}

        def before_call(self, case: Case[Any]) -> None:
            _adapt(case)

        def validate_response(self, response: Response, case: Case[Any], **more: Any) -> None:
            case.validate_response(
                response, excluded_checks=[*_excused(case, response)], recorder=self.recorder
            )

    Sequence.run(
        settings=settings(
            max_examples=3 * (EXAMPLES or FEW),
            derandomize=not EXAMPLES,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
    )


def _adapt(case: Case[Any]) -> None:
    """Have a claim wait for work for a moment only. Leave out of a body what no schema can tell it
    to be: the same id as in the path, the dialect that an expression is of."""
    if not isinstance(case.body, dict):
        return
    if isinstance(wait := case.body.get("wait_ms"), int):
        case.body["wait_ms"] = 1 if 0 < wait <= 30_000 else wait
    if case.meta and case.meta.generation.mode.is_positive:
        case.body.pop("dialect", None)
        if "job_id" in case.path:
            case.body.pop("job_id", None)


def _excused(case: Case[Any], answer: Response) -> set[CheckFunction]:
    """Return the checks that cannot judge an answer."""
    checks = set(LONELY.get(case.operation.label, ()))
    if answer.status_code == 400 and is_beyond_schemas(answer.json()):
        checks.add(positive_data_acceptance)
    if answer.status_code == 200 and NDJSON in answer.headers["content-type"][0]:
        # Each line is refused by itself.
        _check_lines(case, answer)
        checks.add(negative_data_rejection)
    return checks


def _check_lines(case: Case[Any], answer: Response) -> None:
    assert case.meta
    body = case.meta.components.get(ParameterLocation.BODY)
    for said in map(orjson.loads, answer.content.splitlines()):
        if body and body.mode.is_negative:
            assert said["status"] >= 400, said
        else:
            assert said["status"] != 400 or is_beyond_schemas(said), said
