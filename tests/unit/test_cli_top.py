"""`waterclock top`: one frame, as text and as JSON."""

from __future__ import annotations

import json
import os
import pty
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from engine.cli import main, options
from engine.cli.top import _watch
from engine.cli.top_view import MOST_ROWS, view

STATS: dict[str, Any] = {
    "at": "2027-01-15T08:00:00.000Z",
    "window_ms": 10_000,
    "is_sampled": False,
    "fires_per_s": 12.5,
    "completions_per_s": 11.0,
    "failures_per_s": 0.1,
    "skips_per_s": 0.0,
    "lag_p50_ms": 3,
    "lag_p99_ms": 41,
    "last_failures": [
        {
            "at": "2027-01-15T07:59:58.000Z",
            "execution_id": "mail@1800000000000",
            "attempt": 2,
            "outcome": "dead",
            "status_code": 503,
            "error": "HTTP 503: \x1b[31mbusy",
        }
    ],
}
QUEUE = {
    "queue": "mail",
    "paused": False,
    "waiting": {"high": 1, "normal": 2, "low": 0},
    "held": {"queue": 5, "groups": 0, "room": 0},
    "running": 7,
}
SHARD = {"shard": 0, "holder": "s1", "lag_ms": 8, "jobs": 10}
WORKER = {"worker": "w1", "queues": ["mail"], "running": 7, "concurrency": 100}
FRAME: dict[str, Any] = {
    "stats": STATS,
    "queues": [QUEUE],
    "shards": [SHARD, {**SHARD, "shard": 1, "lag_ms": 3}, {**SHARD, "shard": 2, "holder": None}],
    "workers": [WORKER],
}


class FakeApi:
    """Answers with the parts of a frame; fails from `fails_from` on, counted in frames."""

    def __init__(self, fails_from: int = 1_000) -> None:
        self.frames = 0
        self._fails_from = fails_from

    def get(self, name: str) -> Any:
        if name == "stats":
            self.frames += 1
            if self.frames > self._fails_from:
                raise click.ClickException("no API answers")
        return FRAME[name]

    def get_page(self, name: str) -> tuple[Any, None]:
        return FRAME[name], None


def shown(frame: dict[str, Any], trouble: str | None = None) -> list[list[str]]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(view(frame, trouble))
    return [line.split() for line in capture.get().splitlines()]


def test_json_is_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "Api", lambda *_: FakeApi())
    result = CliRunner().invoke(main, ["top", "--json"])
    assert json.loads(result.stdout) == FRAME


@pytest.mark.parametrize("flags", [["--once"], []])
def test_one_frame_is_printed_if_asked_for_or_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr(options, "Api", lambda *_: FakeApi())
    result = CliRunner().invoke(main, ["top", *flags])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Waterclock  08:00:00")


def test_a_frame_shows_rates_lateness_and_who_does_what() -> None:
    lines = shown(FRAME)
    head = " ".join(lines[0])
    assert "12.5 fires/s 11 completions/s 0.1 failures/s" in head
    assert "lag p50 3 ms, p99 41 ms over 10 s" in head
    assert ["mail", "active", "3", "5", "7"] in lines
    assert ["nobody", "2", "8", "10"] in lines
    assert ["s1", "0", "1", "8", "20"] in lines
    assert ["w1", "mail", "7", "100"] in lines


def test_text_of_others_cannot_steer_the_terminal() -> None:
    [line] = [line for line in shown(FRAME) if "mail@1800000000000" in line]
    assert line[:4] == ["07:59:58", "mail@1800000000000", "2", "dead"]
    assert "\\x1b[31mbusy" in line


def test_without_fires_there_is_no_lag() -> None:
    quiet = {**FRAME, "stats": {**STATS, "lag_p50_ms": None, "lag_p99_ms": None}}
    assert "lag no fires" in " ".join(shown(quiet)[0])


def test_a_rate_from_less_time_says_so() -> None:
    busy = {**FRAME, "stats": {**STATS, "is_sampled": True, "window_ms": 500}}
    assert " ".join(shown(busy)[0]).endswith("over 0.5 s, sampled")


def test_long_lists_are_cut_and_the_busiest_come_first() -> None:
    workers = [{**WORKER, "worker": f"w{n}", "running": n} for n in range(MOST_ROWS + 3)]
    lines = shown({**FRAME, "workers": workers})
    names = [line[0] for line in lines if line and line[-1] == "100"]
    assert names == [f"w{n}" for n in range(MOST_ROWS + 2, 2, -1)]
    assert ["and", "3", "more"] in lines


def test_an_api_that_goes_away_is_told_above_the_last_numbers() -> None:
    lines = shown(FRAME, "no API answers")
    assert ["not", "fresh:", "no", "API", "answers"] in lines
    assert ["w1", "mail", "7", "100"] in lines


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Put a terminal in the place of standard input; yield the end at which keys are pressed."""
    keyboard, screen = pty.openpty()
    with os.fdopen(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        tty.setcbreak(screen)  # keys are there as soon as they are pressed
        yield keyboard
    os.close(keyboard)


def test_q_ends_and_other_keys_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    monkeypatch.setattr(import_module("engine.cli.top"), "REFRESH_S", 30)
    with terminal(monkeypatch) as keyboard:
        os.write(keyboard, b"xyq")
        _watch(api)  # type: ignore[arg-type]
    assert api.frames == 3


def test_the_view_goes_on_while_the_api_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi(fails_from=1)
    with terminal(monkeypatch) as keyboard:
        os.write(keyboard, b"xxq")
        _watch(api)  # type: ignore[arg-type]
    assert api.frames == 3


def test_an_api_that_is_not_there_at_the_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "Api", lambda *_: FakeApi(fails_from=0))
    result = CliRunner().invoke(main, ["top"])
    assert (result.exit_code, result.output) == (1, "Error: no API answers\n")
