"""The command line does everything that the API does: each operation, and each of its fields."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import click
import pytest
from pydantic import BaseModel

from api.operations import Operation
from api.routes import OPERATIONS
from engine.cli import main
from engine.cli.jobs import jobs
from engine.cli.words import place_of

COMMANDS = {
    "openapi_show": "openapi",
    "jobs_create": "jobs add",
    "jobs_index": "jobs list",
    "bulk_create": "jobs bulk",
    "bulk_delete": "jobs bulk-delete",
    "jobs_show": "jobs show",
    "edits_put": "jobs replace",
    "edits_patch": "jobs edit",
    "jobs_delete": "jobs delete",
    "jobs_run": "jobs run",
    "jobs_pause": "jobs pause",
    "jobs_resume": "jobs resume",
    "executions_index": "executions list",
    "cancelling_cancel_all": "jobs cancel",
    "executions_index_all": "executions list",
    "executions_show": "executions show",
    "cancelling_cancel_one": "executions cancel",
    "graphs_run_again": "executions rerun",
    "graphs_around": "graph",
    "graphs_run": "graph",
    "schedules_upcoming": "jobs upcoming",
    "schedules_explain_time": "explain",
    "schedules_preview": "preview",
    "backfills_create": "backfill",
    "backfills_show": "backfill",
    "backfills_cancel": "backfill",
    "secrets_create_of_job": "secrets create",
    "secrets_index_of_job": "secrets list",
    "secrets_delete_of_job": "secrets delete",
    "groups_index": "groups list",
    "groups_show": "groups show",
    "groups_pause": "groups pause",
    "groups_resume": "groups resume",
    "groups_delete": "groups delete",
    "secrets_create_of_group": "secrets create",
    "secrets_index_of_group": "secrets list",
    "secrets_delete_of_group": "secrets delete",
    "keys_create": "keys create",
    "keys_index": "keys list",
    "keys_revoke": "keys revoke",
    "keys_rotate": "keys rotate",
    "calendars_index": "calendars list",
    "calendars_show": "calendars show",
    "calendars_put": "calendars put",
    "calendars_delete": "calendars delete",
    "letters_index": "dead list",
    "letters_redrive_many": "dead redrive",
    "letters_discard_many": "dead discard",
    "letters_show": "dead show",
    "letters_discard": "dead discard",
    "letters_redrive": "dead redrive",
    "queues_index": "queues list",
    "queues_show": "queues show",
    "queues_put": "queues set",
    "queues_pause": "queues pause",
    "queues_resume": "queues resume",
    "hosts_index": "hosts list",
    "hosts_show": "hosts show",
    "hosts_put": "hosts set",
    "hosts_delete": "hosts unset",
    "fleet_shards": "shards",
    "fleet_schedulers": "schedulers",
    "fleet_workers": "workers",
    "fleet_server": "server",
    "stats_show": "top",
    "doctor_show": "doctor",
    "doctor_shard": "doctor",
    "events_listen": "events",
    "claims_claim": "executions claim",
    "completions_complete_many": "executions complete-many",
    "completions_heartbeat": "executions heartbeat",
    "completions_complete": "executions complete",
    "completions_fail": "executions fail",
}
"""Operation → the command that does it."""

NO_COMMAND = {
    "health_index": "says where things are, to who looks around with a browser",
    "health_healthz": "for probes; `doctor` says more",
    "health_readyz": "for probes; `doctor` says more",
    "docs_show": "a page for browsers",
    "callbacks_report": "called by targets, at a URL that they were given",
}
"""Operation → why no command does it."""

ELSEWHERE: dict[str, dict[str, str | None]] = {
    # Files hold what a command line cannot.
    "bulk_create": {"*": "file", "on_conflict": "replace"},
    "bulk_delete": {"*": "file", "dependents": "cascade"},
    # Dates are those of a file of another kind, for which there is `calendars import-ical`.
    "calendars_put": {"*": "file", "dates": None},
    "completions_complete_many": {"*": "file"},
    # Choices of several words are flags.
    "jobs_delete": {"dependents": "cascade"},
    "groups_delete": {"dependents": "cascade", "limit": None, "after": None},
    "backfills_create": {"direction": "backwards"},
    # Steps of long work: the command makes them all.
    "groups_index": {"limit": None, "after": None},
    "groups_pause": {"limit": None, "after": None},
    "groups_resume": {"limit": None, "after": None},
    "letters_redrive_many": {"all": "is_all", "limit": None, "after": None},
    "letters_discard_many": {"all": "is_all", "limit": None, "after": None},
    "queues_index": {"limit": None, "after": None},
    "hosts_index": {"limit": None, "after": None},
    "secrets_create_of_job": {"secret": "file"},
    "secrets_create_of_group": {"secret": "file"},
    # What is said by the command that is chosen.
    "completions_complete": dict.fromkeys(("status", "error", "final", "retry_after_ms")),
    "claims_claim": {"queue": "queues"},
    "schedules_preview": {
        # It decides what becomes of missed times, and there are none in what is to come.
        "misfire.policy": None,
        "misfire.grace_ms": None,
        "misfire.max_catch_up": None,
    },
    "events_listen": {"after": "since"},
    # `jobs pause` does it.
    "edits_patch": {"paused": None},
    "keys_create": {"expires_in_ms": "expires_in"},
    "keys_rotate": {"overlap_ms": "overlap"},
}
"""Operation → field, or `*` for any → the parameter that stands for it; None where none need do."""


def command_of(path: str) -> click.Command:
    command: click.Command = main
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


def test_each_operation_has_a_command_or_a_reason() -> None:
    assert {operation.name for operation in OPERATIONS} == {*COMMANDS, *NO_COMMAND}
    assert not COMMANDS.keys() & NO_COMMAND.keys()


@pytest.mark.parametrize("path", sorted({*COMMANDS.values()}))
def test_each_command_of_the_table_is_there(path: str) -> None:
    assert command_of(path).callback is not None


def fields_of(model: Any, *before: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field that a model takes, through the models in it."""
    for kind in models_in(model):
        for name, field in kind.model_fields.items():
            inner = [*models_in(field.annotation)]
            if inner and get_origin(field.annotation) is not list:
                for one in inner:
                    yield from fields_of(one, *before, name)
            else:
                yield (*before, name)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for argument in get_args(annotation):
            yield from models_in(argument)


def asked() -> Iterator[Any]:
    for operation in OPERATIONS:
        contract = operation.handler.contract
        if operation.name in COMMANDS and (contract.query or contract.body):
            yield pytest.param(operation, id=operation.name)


@pytest.mark.parametrize("operation", [*asked()])
def test_each_field_of_an_operation_can_be_said(operation: Operation) -> None:
    contract, command = operation.handler.contract, command_of(COMMANDS[operation.name])
    elsewhere: dict[str, str | None] = ELSEWHERE.get(operation.name, {})
    names = {parameter.name for parameter in command.params}
    unsaid = []
    with click.Context(command, info_name=command.name):
        for field in (*fields_of(contract.query), *fields_of(contract.body)):
            path = ".".join(field)
            stand_in = elsewhere.get(path, elsewhere.get("*", ""))
            is_option = place_of("/" + "/".join(field).rstrip("_")).startswith("--")
            if not (stand_in is None or stand_in in names or is_option or path in names):
                unsaid.append(path)
    assert unsaid == []


def test_a_field_that_no_option_sets_is_found_out() -> None:
    with click.Context(jobs.commands["show"], info_name="show"):
        assert place_of("/target/url") == "target.url"
