"""README's tables say what the code says: settings, states, codes and keys."""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import get_args

import pytest

from api.problems import STATUS
from api.schemas_depends import DEPENDENT_ONLY
from engine import keys
from engine.backoff import Retry
from engine.cli import main
from engine.cli.themes import THEMES
from engine.config import Config
from engine.depends import Condition, Join, Match
from engine.execution import DeadReason, ErrorKind, ExecutionState, Outcome
from engine.importers import IMPORTERS
from engine.model import JobState, Overlap
from engine.plan import DIALECT_SUMMARIES, MisfirePolicy
from engine.scripts import FOLDER, Header
from engine.store.executions import Answer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CONTRACT = (ROOT / "lua/README.md").read_text("utf-8")


def table_after(heading: str, page: str = README) -> list[list[str]]:
    """Return the rows of the first table after a heading, cells without their backquotes."""
    _, _, rest = page.partition(heading)
    found = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", rest, re.MULTILINE)
    assert found, f"no table after {heading!r}"
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in found[1].splitlines()]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in row] for row in rows]


def test_every_link_within_the_page_leads_somewhere_and_every_section_is_in_the_contents() -> None:
    text = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^(##+) (.+)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for _, title in headings]
    assert len(set(anchors)) == len(anchors)
    assert {*re.findall(r"\]\(#([^)]+)\)", text)} <= {*anchors}
    contents, _, _ = text.partition("\n## ")
    tops = {a for (level, _), a in zip(headings, anchors, strict=True) if level == "##"}
    # These two are shown by what is in them.
    tops -= {"looking-after-jobs", "when-an-execution-fails"}
    assert tops <= {*re.findall(r"\]\(#([^)]+)\)", contents)}


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


def test_every_source_of_an_import_stands_in_the_table_with_what_is_read() -> None:
    rows = {source: reads for source, reads, _ in table_after("## Coming from another scheduler")}
    assert rows == {name: importer.reads for name, importer in IMPORTERS.items()}


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("### Misfires", [*get_args(MisfirePolicy)]),
        ("### Overlap", [*Overlap]),
        ("## Dead letters", [*DeadReason]),
    ],
)
def test_every_policy_stands_in_its_table(heading: str, words: list[str]) -> None:
    assert {row[0].split("`")[1 if "`" in row[0] else 0] for row in table_after(heading)} == {
        *words
    }


def test_every_field_of_a_retry_policy_stands_in_the_table_with_its_default() -> None:
    rows = {name: default for name, default, _ in table_after("### Retries")}
    assert rows == {name: str(value or "(none)") for name, value in asdict(Retry()).items()}


def test_every_kind_of_failure_stands_in_the_table() -> None:
    rows = table_after("A target's `Retry-After`")
    assert {row[0] for row in rows} == set(ErrorKind)
    assert [row[0] for row in rows if row[2] == "never"] == [ErrorKind.DEADLINE]


def test_every_state_of_a_job_stands_in_the_table() -> None:
    assert [row[0] for row in table_after("**States of a job**")] == list(JobState)


def test_every_state_of_an_execution_is_named() -> None:
    _, _, text = README.partition("**States of an execution**")
    sentence, _, _ = text.partition("\n\n")
    assert set(re.findall(r"`(\w+)`", sentence)) == set(ExecutionState)


ARGUMENTS = {
    "job": "<id>",
    "runs": "<id>",
    "due": "<bucket>",
    "ready": "<stream>",
    "letter": "<execution>",
    "effects": "<execution>",
    "dependents": "<id>",
    "inputs": "<id>",
    "jobs_of_group": "<group>",
    "jobs_with_tag": "<tag>",
}
"""Shard's method for a key → what the tables write for its argument."""


def all_keys() -> set[str]:
    """Return every key that engine/keys.py spells, as the tables write it."""
    shard = keys.Shard(0, "tag")
    found = {
        value for name, value in vars(keys).items() if name.isupper() and str(value)[:3] == "wc:"
    }
    found.add(keys.request_key("<digest>"))
    for name, member in vars(keys.Shard).items():
        if isinstance(member, cached_property) and not name.endswith("_prefix"):
            found.add(getattr(shard, name))
        elif inspect.isfunction(member) and not name.startswith("_"):
            given = ("<id>", "<time>") if name == "arrivals" else (ARGUMENTS[name],)
            found.add(member(shard, *given))
    return found


@pytest.mark.parametrize(
    ("heading", "page"),
    [("### Keys", README), ("## 2. Keys", CONTRACT)],
    ids=["README.md", "lua/README.md"],
)
def test_every_key_stands_in_the_table(heading: str, page: str) -> None:
    assert {row[0] for row in table_after(heading, page)} == all_keys()


def test_every_code_of_a_script_stands_in_the_contract_with_those_that_give_it() -> None:
    given: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.lua"):
        for code in Header.parse(path.read_text("utf-8")).names("Error"):
            if code != "none":
                given.setdefault(code, set()).add(path.stem)
    rows = table_after("## 8. Codes", CONTRACT)
    assert {code: set(re.findall(r"\w+", scripts)) for code, scripts, _ in rows} == given


def test_every_field_of_an_entry_stands_in_the_contract() -> None:
    source = (FOLDER / "lib/execution.lua").read_text("utf-8")
    _, _, offer = source.partition("local function offer(")
    body, _, _ = offer.partition("\nend\n")
    written = set(re.findall(r"'([a-z_]+)'", body)) - {"ready"}
    assert {row[0] for row in table_after("Fields of an entry", CONTRACT)} == written


def test_every_outcome_stands_in_the_contract() -> None:
    rows = table_after("## 5. Ending", CONTRACT)
    # Nobody ends an execution as cancelled: that is done to it.
    assert {row[0] for row in rows} == set(Outcome) - {Outcome.CANCELLED}
    words = table_after("The reply has a word", CONTRACT)
    assert {row[0] for row in words} == set(Answer)


def test_the_retry_policys_fields_and_defaults_stand_in_the_contract() -> None:
    rows = {row[0]: row[1] for row in table_after("## 6. Failing", CONTRACT)}
    assert rows == {name: str(value or "") for name, value in asdict(Retry()).items()}


def test_every_script_that_the_contract_names_is_there() -> None:
    named = {row[0] for row in table_after("A consumer needs these", CONTRACT)}
    assert named <= {path.stem for path in FOLDER.glob("*.lua")}


def test_every_word_of_a_dependency_stands_in_its_table() -> None:
    rows = {name: text for name, _, text in table_after("## Jobs that depend on jobs")}
    for field, words in {"condition": Condition, "join": Join, "match": Match}.items():
        assert set(words) <= set(re.findall(r"`(\w+)`", rows[field])), field
    assert {"depends_on", "condition", *DEPENDENT_ONLY} == {*rows}


def test_every_command_stands_in_the_table_with_what_it_does() -> None:
    expected = [
        [
            theme,
            name,
            ", ".join(f"`{inner}`" for inner in getattr(main.commands[name], "commands", ())),
            main.commands[name].get_short_help_str(1_000),
        ]
        for theme, names in THEMES.items()
        for name in names
    ]
    rows = [
        [*first, re.sub(r"^([\w-]+)$", r"`\1`", inner), does]
        for *first, inner, does in table_after("## The command line")
    ]
    assert rows == expected


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_two_commands_are_shown(command: str) -> None:
    assert command in README
