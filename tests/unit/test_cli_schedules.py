"""`waterclock next`, `lint` and `explain`: what is printed for a schedule, and for whole tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

AFTER = ("--after", "2026-03-27T12:00:00Z")


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result


def test_next_shows_local_times_and_warns() -> None:
    result = run("next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "2", *AFTER)
    meaning, head, first, second = result.stdout.splitlines()
    assert meaning == "At 02:30 (vixie, Europe/Berlin)"
    assert head.split() == ["LOCAL", "TIME", "ZONE", "NOTE"]
    assert first.split() == ["2026-03-28T02:30:00+01:00", "CET", "–"]
    assert second.split()[:3] == ["2026-03-29T03:00:00+02:00", "CEST", "gap:"]
    assert "[dst_gap]" in result.stderr


def test_next_prints_json_for_programs() -> None:
    shown = json.loads(run("next", "every 90s", "-n", "2", "--json", *AFTER).stdout)
    assert (shown["dialect"], shown["description"]) == ("interval", "Every 1 minute 30 seconds")
    assert [time["at"] for time in shown["times"]] == [
        "2026-03-27T12:01:30+00:00",
        "2026-03-27T12:03:00+00:00",
    ]


@pytest.mark.parametrize(
    ("expr", "first"),
    [
        ("2026-04-01T09:00:00.250Z", "2026-04-01T09:00:00.250+00:00"),
        ("every 1h from 2026-01-01T00:30:00Z", "2026-03-27T12:30:00+00:00"),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "2026-03-28T09:00:00+09:00"),
    ],
)
def test_next_knows_single_times_phases_and_zones_in_the_text(expr: str, first: str) -> None:
    shown = json.loads(run("next", expr, "-n", "1", "--json", *AFTER).stdout)
    assert [time["at"] for time in shown["times"]] == [first]


def test_a_schedule_without_clock_times_is_right_and_has_none(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("dialect\texpression\nvixie\t@reboot\n")
    [told] = [json.loads(line) for line in run("next", "--file", str(table)).stdout.splitlines()]
    assert (told["valid"], told["never"], told["times"], told["error"]) == (True, False, [], None)
    said = run("next", "@reboot").stdout
    assert said.startswith("At each start of the deployment (vixie")


def test_a_table_is_judged_row_by_row_whatever_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "schedules.tsv"
    rows = [
        "n\tdialect\texpression\ttimezone",
        "1\tquartz\t0 0 12 ? * MON\tEurope/Berlin",
        "2\tvixie\t61 * * * *\tUTC",
        "3\tcron\t* * * * *\tUTC",
        "4\tvixie\t0 0 30 2 *\tUTC",
        "5\tvixie\t@daily\tMars",
        "6",
        '7\t\t"0 0 * * *',
        "8\tjenkins\tH H * * *\tUTC\tmore\tthan\tthe heading",
    ]
    file.write_bytes("\n".join(rows).encode() + b"\n9\tvixie\t\xff\t\n\n")
    told = list(map(json.loads, run("next", "--file", str(file), *AFTER).stdout.splitlines()))
    assert [n for n, row in enumerate(told, start=1) if row["valid"]] == [1, 4, 8]
    assert [n for n, row in enumerate(told, start=1) if row["never"]] == [4]
    assert told[0]["times"][0] == "2026-03-30T12:00:00+02:00"
    assert [len(row["times"]) for row in told] == [10, 0, 0, 0, 0, 0, 0, 10, 0]
    assert all((row["error"] is None) is (row["valid"] and not row["never"]) for row in told)
    assert set(told[0]) == {"dialect", "expression", "valid", "error", "never", "times"}


def test_an_expression_of_two_lines_is_written_as_one_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("dialect\texpression\njenkins\tTZ=Australia/Sydney\\nH 9 * * *\n")
    [line] = run("next", "--file", str(file), *AFTER).stdout.splitlines()
    told = json.loads(line)
    assert (told["valid"], told["expression"]) == (True, "TZ=Australia/Sydney\\nH 9 * * *")
    assert all(time.startswith("2026-0") and "T09:" in time for time in told["times"])


def test_next_takes_an_expression_or_a_file() -> None:
    assert CliRunner().invoke(main, ["next"]).exit_code == 2


def test_what_cannot_be_read_is_one_line_and_exit_code_one() -> None:
    result = CliRunner().invoke(main, ["next", "61 * * * *"])
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)


def test_lint_says_what_it_means_and_how_others_write_it() -> None:
    result = run("lint", "*/35 9 * * 1")
    told = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert told["means"] == "At 09:00 and 09:35 on Monday"
    assert told["quartz"] == "0 */35 9 ? * MON"
    assert "[uneven_step]" in result.stderr
    assert json.loads(run("lint", "@daily", "--json").stdout)["warnings"] == []


def test_lint_fails_for_what_never_fires() -> None:
    for more in ([], ["--json"]):
        result = CliRunner().invoke(main, ["lint", "0 0 30 2 *", *more])
        assert result.exit_code == 1
        assert "never_fires" in result.output
        assert "February" in result.stdout


def test_explain_asks_the_api_and_prints_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class FakeApi:
        def __init__(self, *_: str | None) -> None: ...

        def get(self, *path: str, **query: object) -> Any:
            asked.append((path, query))
            return {"verdict": "will_fire", "text": "It is to come."}

    monkeypatch.setattr(options, "Api", FakeApi)
    assert run("explain", "a", "2026-03-27T12:00:00Z").stdout == "will_fire: It is to come.\n"
    assert asked == [(("jobs", "a", "explain"), {"at": "2026-03-27T12:00:00Z"})]
