"""Long work: no bar where nobody looks, and what was done is told when it is cut off."""

from __future__ import annotations

import io
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from engine.cli import main, options
from engine.cli.options import confirm_all, confirm_one
from engine.cli.progress import progress, told_at_the_end

STEP = {"changed": 2, "unchanged": 0, "failed": 0, "first_failed": [], "left": 5, "next": "b"}
JOB = {"job_id": "a", "next_run_at": "T"}
LETTERS = {"redriven": 3, "skipped": {"live": 1}, "examined": 4, "left": 9, "next": "x"}


class CutOff:
    """Answers a few times; then somebody presses Ctrl-C, or the API is gone."""

    def __init__(self, answers: list[Any], end: BaseException) -> None:
        self._answers = iter(answers)
        self._end = end

    def post(self, *_: str, **__: object) -> Any:
        for answer in self._answers:
            return answer
        raise self._end

    get = post
    post_lines = post


@pytest.fixture(params=[KeyboardInterrupt(), click.ClickException("no API answers")])
def end(request: pytest.FixtureRequest) -> BaseException:
    found: BaseException = request.param
    return found


@pytest.mark.parametrize(
    ("args", "answers", "told"),
    [
        (["groups", "pause", "acme"], [STEP], "paused     2"),
        (["dead", "redrive", "--all", "--yes"], [LETTERS], "redriven         3"),
        (
            ["backfill", "a", "--from", "A", "--to", "B", "--wait"],
            [{"state": "running", "times": 9, "passed": 4, "live": 1}],
            "passed  4",
        ),
        (["import", "crontab", "--url", "https://a.example", "--yes"], [JOB], "created"),
        (["jobs", "import", "crontab", "crontab", "--url", "https://a.example"], [JOB], "created"),
        (["jobs", "bulk", "many"], [[{"line": 1, "status": 201}]], "created  1"),
    ],
)
def test_what_was_done_is_told_when_it_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    end: BaseException,
    args: list[str],
    answers: list[Any],
    told: str,
) -> None:
    monkeypatch.setattr(options, "Api", lambda *_: CutOff(answers, end))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.chdir(tmp_path)
    Path("crontab").write_text("0 5 * * * a\n0 6 * * * b\n")
    Path("many").write_text("{}\n" * 6_000)
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 1
    assert told in result.stdout
    assert result.stderr.strip().splitlines()[-1] in ("Aborted!", "Error: no API answers")


def test_nothing_is_told_of_what_never_began(
    monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    monkeypatch.setattr(options, "Api", lambda *_: CutOff([], end))
    result = CliRunner().invoke(main, ["groups", "pause", "acme"])
    assert (result.exit_code, result.stdout) == (1, "")


def test_what_is_through_is_told_once() -> None:
    told: list[int] = []
    with told_at_the_end(lambda: told.append(1), lambda: False):
        pass
    assert told == [1]


@pytest.mark.parametrize(("said", "goes"), [("y\n", True), ("n\n", False)])
def test_one_thing_is_asked_about_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, said: str, goes: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    with nullcontext() if goes else pytest.raises(click.Abort):
        confirm_one("Delete it?", False)
    assert sys.stdin.read() == ""


@pytest.mark.parametrize(
    "words",
    [
        "jobs delete a",
        "jobs bulk-delete many",
        "calendars delete a",
        "secrets delete --job a sec_0",
        "dead discard a@5",
        "keys revoke 0",
    ],
)
def test_whoever_says_no_at_a_terminal_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many").touch()
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    # It has no method: to ask it anything is an error of another kind.
    monkeypatch.setattr(options, "Api", lambda *_: object())
    with pytest.raises(click.Abort):
        main.main(words.split(), standalone_mode=False)


def test_nobody_is_asked_who_said_yes_or_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for stdin, yes in ((Terminal("n\n"), True), (io.StringIO("n\n"), False)):
        monkeypatch.setattr(sys, "stdin", stdin)
        confirm_one("Delete it?", yes)
        assert sys.stdin.read() == "n\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_much_is_not_done_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(click.ClickException, match="--yes"):
        confirm_all("Delete them all?", False)
    confirm_all("Delete them all?", True)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_who_says_no_to_much_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    for said in ("n\n", "\n"):
        monkeypatch.setattr(sys, "stdin", stream(said))
        with pytest.raises(click.Abort):
            confirm_all("Delete them all?", False)


def test_ctrl_c_at_a_question_is_no_lack_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    with pytest.raises(click.Abort):
        confirm_all("Delete them all?", False)


@pytest.fixture
def _colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours may be forced upon a pipe; a bar may not."""
    monkeypatch.setenv("FORCE_COLOR", "1")


@pytest.mark.usefixtures("_colours_are_forced")
@pytest.mark.parametrize(("stream", "is_shown"), [(Terminal, True), (io.StringIO, False)])
def test_a_bar_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], is_shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    with progress() as bar:
        bar.update(bar.add_task("redrive", total=2), completed=1)
        bar.refresh()
    assert isinstance(sys.stderr, io.StringIO)
    assert ("redrive" in sys.stderr.getvalue()) is is_shown
