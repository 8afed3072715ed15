"""README's tables say what the code says: settings, states, codes and keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from api.problems import STATUS
from engine import keys
from engine.config import Config
from engine.model import ExecutionState, JobState, Overlap
from engine.plan import DIALECT_SUMMARIES, MisfirePolicy

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def table_after(heading: str) -> list[list[str]]:
    """Return the rows of the first table after a heading, cells without their backquotes."""
    _, _, rest = README.partition(heading)
    found = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", rest, re.MULTILINE)
    assert found, f"no table after {heading!r}"
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in found[1].splitlines()]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in row] for row in rows]


def test_every_setting_stands_in_the_table_with_its_default_and_meaning() -> None:
    rows = table_after("### Settings")
    expected = [
        [
            f"WATERCLOCK_{name.upper()}",
            "(none)" if field.default is None else str(field.default),
            str(field.description),
        ]
        for name, field in Config.model_fields.items()
    ]
    assert rows == expected


def test_every_error_code_stands_in_the_table_with_its_status() -> None:
    rows = table_after("### Error codes")
    assert {code: int(status) for code, status, _ in rows} == dict(STATUS)


def test_every_dialect_stands_in_the_table_with_its_summary() -> None:
    rows = {dialect: text.replace("\\|", "|") for dialect, text in table_after("## Schedules")}
    assert rows == DIALECT_SUMMARIES


@pytest.mark.parametrize(
    ("heading", "words"),
    [("### Misfires", [*get_args(MisfirePolicy)]), ("### Overlap", [*Overlap])],
)
def test_every_policy_stands_in_its_table(heading: str, words: list[str]) -> None:
    assert {row[0].split("`")[1 if "`" in row[0] else 0] for row in table_after(heading)} == {
        *words
    }


def test_every_state_of_a_job_stands_in_the_table() -> None:
    assert [row[0] for row in table_after("**States of a job**")] == list(JobState)


def test_every_state_of_an_execution_is_named() -> None:
    _, _, text = README.partition("**States of an execution**")
    sentence, _, _ = text.partition("\n\n")
    assert set(re.findall(r"`(\w+)`", sentence)) == set(ExecutionState)


def test_every_key_stands_in_the_table() -> None:
    shard = keys.Shard(0, "tag")
    expected = {
        keys.LAYOUT,
        keys.SCHEDULERS,
        keys.CALENDARS,
        shard.job("<id>"),
        shard.runs("<id>"),
        shard.due("<bucket>"),
        shard.ready("<queue>"),
        *(getattr(shard, name) for name in ("jobs", "plans", "buckets", "lease", "fence")),
        *(getattr(shard, name) for name in ("dead", "backfills", "ledger")),
    }
    assert {row[0] for row in table_after("### Keys")} == expected


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_two_commands_are_shown(command: str) -> None:
    assert command in README
