"""`waterclock jobs import crontab`: every line is told of, and importing again is safe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options
from engine.cli.client import Refused

SAMPLE = Path(__file__).parent / "data" / "crontab.sample"
URL = "http://127.0.0.1/run"
NEXT = "2026-12-01T01:00:00.000Z"


class FakeApi:
    """Keeps jobs by id. `refusals` are problems for payload commands; `is_away` answers nothing."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.refusals: dict[str, dict[str, Any]] = {}
        self.is_away = False

    def post(self, *path: str, body: Any) -> Any:
        assert path == ("jobs",)
        if self.is_away:
            raise click.ClickException("no API answers")
        told = body.get("payload", body["target"])
        if problem := self.refusals.get(told["command"]):
            raise Refused(problem)
        if body["job_id"] in self.jobs:
            raise Refused({"code": "job_exists", "detail": "it exists"})
        self.jobs[body["job_id"]] = body
        has_clock_times = body["schedule_expr"] != "@reboot"
        return {**body, "next_run_at": NEXT if has_clock_times else None}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str, text: str | bytes | None = None) -> Result:
    return invoke("--url", URL, *args, text=text)


def invoke(*args: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["jobs", "import", "crontab", *args], input=text)


def lines_of(result: Result) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = json.loads(result.stdout)
    return lines


def test_a_line_for_each_start_of_the_deployment_is_registered_as_such(api: FakeApi) -> None:
    result = run("-", "--user", text="@reboot /bin/warm\n")
    assert result.exit_code == 0, result.output
    [body] = api.jobs.values()
    assert (body["schedule_expr"], body["payload"]["command"]) == ("@reboot", "/bin/warm")
    [line] = lines_of(run("-", "--user", "--json", "--dry-run", text="@reboot /bin/warm\n"))
    assert line["next_runs"] == []


def test_a_line_becomes_a_job_that_posts_the_command(api: FakeApi) -> None:
    text = "PATH=/bin\n0 5 * * 1-5 root /bin/cat %a%b\n"
    result = run("-", "--system", "--timezone", "Europe/Zurich", text=text)
    assert result.exit_code == 0, result.output
    [(job_id, body)] = api.jobs.items()
    assert body == {
        "job_id": job_id,
        "schedule_expr": "0 5 * * 1-5",
        "dialect": "vixie",
        "timezone": "Europe/Zurich",
        "target": {"type": "http", "url": URL},
        "payload": {
            "command": "/bin/cat ",
            "stdin": "a\nb\n",
            "user": "root",
            "environment": {"PATH": "/bin"},
        },
    }
    row = result.stdout.splitlines()[1].split()
    assert row == ["2", "created", job_id, NEXT, "–"]
    assert result.stderr == "1 created; hours without a CRON_TZ are Europe/Zurich\n"


def test_with_shell_a_line_becomes_a_job_that_is_the_command(api: FakeApi) -> None:
    text = "SHELL=/bin/bash\nHOME=/srv\n0 5 * * 1-5 app /bin/date +\\%F %a%b\n"
    result = invoke("-", "--shell", "--system", text=text)
    assert result.exit_code == 0, result.output
    [(job_id, body)] = api.jobs.items()
    assert body == {
        "job_id": job_id,
        "schedule_expr": "0 5 * * 1-5",
        "dialect": "vixie",
        "timezone": "UTC",
        "target": {
            "type": "shell",
            "command": "/bin/date +%F ",
            "cwd": "/srv",
            "env": {"SHELL": "/bin/bash", "HOME": "/srv"},
            "stdin": "a\nb\n",
            "user": "app",
        },
    }


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("0 5 * * * a", {"command": "a"}),
        ("0 5 * * * a%", {"command": "a", "stdin": ""}),
        ("HOME=\n0 5 * * * a", {"command": "a", "env": {"HOME": ""}}),
    ],
)
def test_with_shell_what_a_line_does_not_say_is_not_sent(
    api: FakeApi, line: str, target: dict[str, Any]
) -> None:
    invoke("-", "--shell", "--user", text=f"{line}\n")
    [body] = api.jobs.values()
    assert body["target"] == {"type": "shell", **target}
    assert "payload" not in body


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_with_shell_a_line_under_mailto_is_told_that_no_mail_is_sent(
    api: FakeApi, more: list[str]
) -> None:
    text = "MAILTO=ops\n-0 5 * * * a\nMAILTO=\n0 5 * * * b\n"
    loud, silent = lines_of(invoke("-", "--shell", "--user", "--json", *more, text=text))
    assert loud["note"].startswith("the leading '-'")
    assert loud["note"].endswith("; MAILTO: no mail is sent, the history has the output")
    assert silent["note"] is None
    told = lines_of(run("-", "--user", "--json", "--dry-run", text=text))
    assert "MAILTO" not in str(told)


def test_a_line_has_the_same_id_with_shell_as_with_a_url(api: FakeApi) -> None:
    text = "0 5 * * * a\n0 5 * * * a\n"
    foreseen = [line["job_id"] for line in lines_of(run("-", "--dry-run", "--json", text=text))]
    invoke("-", "--shell", text=text)
    assert list(api.jobs) == foreseen


@pytest.mark.parametrize("args", [[], ["--url", URL, "--shell"]])
def test_an_import_is_either_with_a_url_or_with_shell(api: FakeApi, args: list[str]) -> None:
    result = invoke("-", *args, text="0 5 * * * a\n")
    assert result.exit_code == 2
    assert "either --url or --shell" in result.output
    assert api.jobs == {}


def test_a_line_that_is_refused_is_told_and_holds_up_no_other(api: FakeApi) -> None:
    result = run("-", "--user", text="61 * * * * a\n\n0 5 * * * b\n* * * * *\n")
    assert result.exit_code == 1
    rows = [line.split()[:2] for line in result.stdout.splitlines()[1:]]
    assert rows == [["1", "refused"], ["3", "created"], ["4", "refused"]]
    assert "61" in result.stdout
    assert len(api.jobs) == 1


def test_what_the_api_refuses_is_told_with_its_line(api: FakeApi) -> None:
    faults = [{"pointer": "/payload", "detail": "too long"}]
    api.refusals["a"] = {"code": "bad_input", "errors": faults}
    result = run("-", "--json", text="0 5 * * * a\n0 5 * * * b\n")
    assert result.exit_code == 1
    told = [(line["line"], line["status"], line["note"]) for line in lines_of(result)]
    assert told == [(1, "refused", "payload: too long"), (2, "created", None)]


def test_importing_again_adds_only_what_is_new(api: FakeApi) -> None:
    run("-", text="0 5 * * * a\n")
    result = run("-", "--json", text="0 6 * * * b\n0 5 * * * a\n")
    assert result.exit_code == 0
    told = [(line["line"], line["status"]) for line in lines_of(result)]
    assert told == [(1, "created"), (2, "exists")]
    assert len(api.jobs) == 2


def test_an_api_that_is_away_ends_the_import(api: FakeApi) -> None:
    api.is_away = True
    result = run("-", text="0 5 * * * a\n0 6 * * * b\n")
    assert (result.exit_code, result.output) == (1, "Error: no API answers\n")


def test_the_sample_gives_each_line_one_outcome(api: FakeApi) -> None:
    result = run(str(SAMPLE), "--json")
    lines = lines_of(result)
    raw = SAMPLE.read_text().splitlines()
    is_job = [bool(x.strip()) and x.strip()[0] in "0123456789*@" for x in raw]
    assert [line["line"] for line in lines] == [n for n, yes in enumerate(is_job, 1) if yes]
    assert result.exit_code == 1
    assert len(api.jobs) == sum(line["status"] == "created" for line in lines) > 15


def test_a_dry_run_talks_to_nobody_and_shows_times_in_the_lines_zone(api: FakeApi) -> None:
    api.is_away = True
    text = "@monthly a\nCRON_TZ=Asia/Tokyo\n30 8 * * * b\n"
    result = run("-", "--dry-run", "--json", "--timezone", "America/New_York", text=text)
    assert result.exit_code == 0, result.output
    monthly, daily = lines_of(result)
    assert (monthly["line"], monthly["status"], daily["line"]) == (1, "new", 3)
    assert len(daily["next_runs"]) == len(set(daily["next_runs"])) == 3
    assert {run[10:] for run in daily["next_runs"]} == {"T08:30:00+09:00"}
    assert {run[7:19] for run in monthly["next_runs"]} == {"-01T00:00:00"}
    assert {run[19:] for run in monthly["next_runs"]} <= {"-05:00", "-04:00"}


def test_a_dry_run_with_a_refused_line_exits_with_1(api: FakeApi) -> None:
    assert run("-", "--dry-run", text="61 * * * * a\n").exit_code == 1


def test_a_dry_run_names_the_ids_that_an_import_would_give(api: FakeApi) -> None:
    text = "0 5 * * * a\n0 5 * * * a\n"
    foreseen = [line["job_id"] for line in lines_of(run("-", "--dry-run", "--json", text=text))]
    run("-", text=text)
    assert list(api.jobs) == foreseen


def test_a_file_without_jobs_says_so(api: FakeApi) -> None:
    result = run("-", text="# nothing\n")
    assert result.exit_code == 0
    assert result.stderr.startswith("no jobs in this file")


@pytest.mark.parametrize(
    ("args", "text", "code", "reason"),
    [
        (["-", "--timezone", "Mars/Base"], b"0 5 * * * a\n", 2, "--timezone"),
        (["/no/such/file"], b"", 2, "does not exist"),
        (["-"], b"0 5 * * * caf\xe9\n", 1, "not UTF-8 at byte 13"),
    ],
)
def test_a_wrong_zone_or_file_registers_nothing(
    api: FakeApi, args: list[str], text: bytes, code: int, reason: str
) -> None:
    result = run(*args, text=text)
    assert result.exit_code == code
    assert reason in result.output
    assert api.jobs == {}
