"""The API's own description: it is OpenAPI 3.1, whole, and says what is so. That answers conform to
it is checked in every test that calls the API (conforming.py)."""

from __future__ import annotations

from dataclasses import replace

import calling
import httpx
import pytest
from keyed import asking, make_key
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import TypeAdapter

from api.docs import page
from api.examples import EXAMPLES
from api.openapi import codes_of, document
from api.openapi_fields import FIELDS
from api.openapi_words import PARTS
from api.operations import Operation
from api.problems import STATUS, ProblemOut
from api.routes import OPERATIONS
from engine.clock import ManualClock
from engine.execution import Delivery
from engine.model import HttpTarget
from engine.store import Store
from engine.targets.http import RESULT_HEADER
from engine.targets.outgoing import Composer
from engine.webhooks import ID, SIGNATURE, TIMESTAMP

client, clock = calling.client, calling.clock

BY_NAME = {operation.name: operation for operation in OPERATIONS}


def test_the_document_is_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(document()).validate()


def test_each_operation_stands_in_the_document_under_its_own_name() -> None:
    shown = [
        (method.upper(), path, operation["operationId"])
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]
    assert sorted(shown) == sorted((op.method, op.path, op.name) for op in OPERATIONS)
    assert len({name for _, _, name in shown}) == len(shown)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_operation_says_what_it_does_gives_and_refuses(operation: Operation) -> None:
    said = operation.handler.contract
    assert operation.handler.answer.__doc__
    assert operation.part in PARTS
    assert said.gives is not None or said.status == 204
    assert set(said.refuses) <= STATUS.keys()
    assert codes_of(operation) >= set(said.refuses)


@pytest.mark.parametrize(
    ("name", "example"),
    [(name, body["value"]) for name, bodies in EXAMPLES.items() for body in bodies.values()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_example_is_what_its_operation_takes(name: str, example: object) -> None:
    if BY_NAME[name].method != "PATCH":
        body = TypeAdapter(BY_NAME[name].handler.contract.body)
        body.validate_python(example, context={"clock": ManualClock(calling.NOW)})


def test_each_field_and_each_parameter_is_described() -> None:
    shown = document()
    for name, schema in shown["components"]["schemas"].items():
        for field, said in schema.get("properties", {}).items():
            assert said.get("description"), f"{name}.{field}"
    for methods in shown["paths"].values():
        for operation in methods.values():
            for said in operation["parameters"]:
                if said["in"] != "path":
                    where = f"{operation['operationId']} {said['name']}"
                    assert said.get("description"), where


def test_no_word_is_explained_that_is_not_in_the_document() -> None:
    shown = document()
    fields = {f for said in shown["components"]["schemas"].values() for f in said["properties"]}
    parameters = {
        said["name"]
        for methods in shown["paths"].values()
        for operation in methods.values()
        for said in operation["parameters"]
    }
    assert FIELDS.keys() <= fields | parameters


def test_schemas_go_by_one_name_each() -> None:
    # Of two types of one name pydantic makes `module__Name`.
    assert not [name for name in document()["components"]["schemas"] if "__" in name]


def test_the_examples_of_refusals_are_problems_as_they_are_sent() -> None:
    for code, example in document()["components"]["examples"].items():
        problem = TypeAdapter(ProblemOut).validate_python(example["value"])
        assert (problem["code"], problem["status"]) == (code, STATUS[code])
        assert problem["detail"]


def test_a_key_is_asked_for_where_the_application_asks_for_one() -> None:
    asked = {
        operation["operationId"]
        for methods in document()["paths"].values()
        for operation in methods.values()
        if "security" in operation
    }
    assert asked == {operation.name for operation in OPERATIONS if operation.scope}
    free = document(asks_for_keys=False)
    assert "security" not in str(free["paths"])
    assert free["components"]["securitySchemes"] == {}


async def test_an_api_that_asks_for_keys_says_so(store: Store, clock: ManualClock) -> None:
    await make_key(store)
    async with asking(store, clock) as client:
        assert (await client.get("/openapi.json")).json() == document()
        assert "Needs a key of scope" in (await client.get("/docs")).text


async def test_the_document_says_what_targets_are_sent(clock: ManualClock) -> None:
    call = document()["webhooks"]["execution"]["post"]
    always = {said["name"] for said in call["parameters"] if said["required"]}
    seldom = {said["name"] for said in call["parameters"] if not said["required"]}
    plain = HttpTarget(url="https://example.com/")
    composer = Composer(clock, lambda _: "https://example.com/callback", None)
    delivery = Delivery(0, "http", "1-1", "w1", 1, "report@5", 1, 5, b"", b"{}", b"null")
    sent = await composer.compose(delivery, plain)
    assert sent.ours.keys() == always | {"Content-Type"}
    later = await composer.compose(delivery, replace(plain, respond_async=True))
    assert call["responses"]["2XX"]["headers"].keys() == {RESULT_HEADER}
    assert later.ours.keys() | {ID, TIMESTAMP, SIGNATURE} == always | seldom | {"Content-Type"}


async def test_the_document_is_served_and_not_sent_twice(client: httpx.AsyncClient) -> None:
    answer = await client.get("/openapi.json")
    assert answer.json() == document(asks_for_keys=False)
    again = await client.get("/openapi.json", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_page_needs_no_network_and_runs_no_script(client: httpx.AsyncClient) -> None:
    answer = await client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    assert not any(word in answer.text for word in ('src="http', "@import", "url(http"))


def test_the_page_shows_each_operation_and_each_schema() -> None:
    shown = page()
    for operation in OPERATIONS:
        assert f'<section id="{operation.name}">' in shown
    for name in document()["components"]["schemas"]:
        assert f'<section id="schema-{name}">' in shown
    assert '<section id="target_call">' in shown
