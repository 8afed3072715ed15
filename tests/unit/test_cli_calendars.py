"""`waterclock calendars …`: what is sent for a command line, and what is printed of the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

CALENDAR = {
    "name": "holidays",
    "version": 7,
    "timezone": None,
    "weekdays": ["MO", "TU"],
    "hours": ["09:00-17:00"],
    "exclude": ["2026-12-25", "2026-12-26"],
    "include": [],
}
LINE = {
    "name": "holidays",
    "version": 7,
    "timezone": "Asia/Tokyo",
    "weekdays": ["MO", "TU"],
    "hours": [],
    "excluded": 2,
    "included": 0,
}


class FakeApi:
    """Keeps what it is asked, and answers `answer`."""

    answer: Any = CALENDAR

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []

    def get(self, *path: str, **query: Any) -> Any:
        self.calls.append(("GET", path, query))
        return self.answer

    def put(self, *path: str, **more: Any) -> Any:
        given = {name: value for name, value in more.items() if value is not None}
        self.calls.append(("PUT", path, given))
        return self.answer

    def delete(self, *path: str) -> None:
        self.calls.append(("DELETE", path, {}))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def calendars(*args: str, stdin: bytes = b"") -> Result:
    result = CliRunner().invoke(main, ["calendars", *args], input=stdin)
    assert result.exit_code == 0, result.output
    return result


def test_a_calendar_is_shown_a_field_a_line(api: FakeApi) -> None:
    lines = calendars("show", "holidays").output.splitlines()
    assert api.calls == [("GET", ("calendars", "holidays"), {})]
    assert [line.split(maxsplit=1) for line in lines] == [
        ["name", "holidays"],
        ["version", "7"],
        ["timezone", "–"],
        ["weekdays", "MO, TU"],
        ["hours", "09:00-17:00"],
        ["exclude", "2026-12-25, 2026-12-26"],
        ["include", "–"],
    ]


def test_calendars_are_listed_a_line_each(api: FakeApi) -> None:
    api.answer = {"calendars": [LINE]}
    heading, line = calendars("list").output.splitlines()
    assert heading.startswith("NAME      VERSION  ZONE        WEEKDAYS  HOURS  EXCLUDED  INCLUDED")
    assert line.split() == ["holidays", "7", "Asia/Tokyo", "MO,TU", "–", "2", "0"]


@pytest.mark.parametrize("command", [["list"], ["show", "holidays"]])
def test_json_is_printed_as_it_came(api: FakeApi, command: list[str]) -> None:
    assert json.loads(calendars(*command, "--json").output) == CALENDAR


def test_what_show_prints_can_be_put(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "holidays.json"
    file.write_text(json.dumps(CALENDAR), "utf-8")
    calendars("put", "holidays", str(file), "--if-version", "7")
    body = {name: value for name, value in CALENDAR.items() if name not in ("name", "version")}
    assert api.calls == [("PUT", ("calendars", "holidays"), {"body": body, "version": 7})]


def test_a_file_that_is_not_json_is_refused(api: FakeApi) -> None:
    result = CliRunner().invoke(main, ["calendars", "put", "a", "-"], input=b"hours: [")
    assert result.exit_code == 1
    assert "not JSON" in result.output
    assert api.calls == []


def test_an_icalendar_file_is_sent_as_it_is(api: FakeApi) -> None:
    calendars("import-ical", "holidays", "-", "--as", "include", stdin=b"BEGIN:VCALENDAR\r\n")
    sent = {"ical": b"BEGIN:VCALENDAR\r\n", "dates": "include"}
    assert api.calls == [("PUT", ("calendars", "holidays"), sent)]


def test_delete_says_what_it_deleted(api: FakeApi) -> None:
    assert calendars("delete", "holidays").output == "deleted holidays\n"
    told = calendars("delete", "holidays", "--json").output
    assert json.loads(told) == {"name": "holidays", "deleted": True}
    assert api.calls == [("DELETE", ("calendars", "holidays"), {})] * 2
