"""What the command of the load harness refuses, before it runs anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from measured import put, result

from bench.__main__ import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["spike", "--server", "a", "--url", "redis://b"], "give one of them"),
        (["spike", "--server", "nowhere/redis"], "'nowhere/redis' is not an executable file"),
        (["spike", "--url", "http://b"], "must begin with redis://"),
        (["spike", "--jobs", "0"], "0 is not in the range"),
        (["plans", "--jobs", "1", "--json", "nowhere/a.json"], "nowhere is no folder"),
        (["strike"], "No such command 'strike'"),
        (["compare", "a.json"], "give BEFORE and AFTER, not a.json"),
        (["compare", "a.json", "b.json"], "a.json cannot be read: No such file"),
        (["compare", "--against", "main", "a", "b"], "give one SCENARIO, not a b"),
        (["compare", "--against", "main", "strike"], "'strike' is no scenario"),
        (["compare", ".", "."], "there is no result in ."),
        (["compare", "README.md", "README.md"], "README.md is no result"),
        (["report", "--results", "."], "there is no result in ."),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text(json.dumps(["not", "a", "result"]), "utf-8")
    done = CliRunner().invoke(main, words)
    assert done.exit_code != 0
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_options_of_one_revision_are_refused_where_files_are_compared(tmp_path: Path) -> None:
    file = put(tmp_path / "a.json", result({"ratio": 1}))
    done = CliRunner().invoke(main, ["compare", file, file, "--quick"])
    assert done.exit_code == 2
    assert "--quick is for --against" in done.stderr
