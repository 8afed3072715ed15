"""`waterclock import`: what is asked, shown and registered, with an API that only remembers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options
from engine.cli.client import Refused

SAMPLES = Path(__file__).parent / "data" / "importers"
TICK = '{"beat_schedule": {"tick": {"task": "app.tick", "schedule": 30, "relative": true}}}'
BROKEN = '{"beat_schedule": {"good": {"task": "t", "schedule": 30}, "bad": {"task": "t"}}}'
AT_REBOOT = "@reboot /usr/bin/run\n"
URL = "https://example.com/run"


class FakeApi:
    """Keeps jobs by id, and what was asked of it in order."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, ...]] = []
        self.refuses: dict[str, str] = {}

    def post(self, *path: str, body: Any = None) -> Any:
        self.asked.append(("post", *path[1:]))
        if path[1:]:
            return {"job_id": path[1], "next_run_at": None}
        job_id = body["job_id"]
        if job_id in self.refuses:
            raise Refused({"code": "bad_input", "detail": self.refuses[job_id]})
        if job_id in self.jobs:
            raise Refused({"code": "job_exists", "detail": "it exists"})
        self.jobs[job_id] = body
        return {**body, "next_run_at": "2030-01-01T00:00:00.000Z"}

    def put(self, *path: str, body: Any) -> Any:
        self.asked.append(("put", *path[1:]))
        self.jobs[path[1]] = body
        return {**body, "next_run_at": "2030-01-01T00:00:00.000Z"}

    def patch(self, *path: str, body: Any) -> Any:
        self.asked.append(("patch", *path[1:]))
        self.jobs[path[1]] = {**self.jobs[path[1]], **body}
        return {"next_run_at": None}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["import", *args], input=text)


def file(tmp_path: Path, text: str, name: str = "beat.json") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def jobs_of(result: Result) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(result.stdout)["jobs"]
    return jobs


def test_a_dry_run_asks_nobody_and_shows_jobs_and_notes(api: FakeApi) -> None:
    result = run("-", "--dry-run", text=TICK)
    assert result.exit_code == 0, result.output
    assert api.asked == []
    heading, row, _, columns, note = result.stdout.splitlines()
    assert heading.split() == ["PLACE", "STATUS", "ID", "NEXT", "NOTE"]
    assert row.split()[:3] == ["tick", "new", "tick"]
    assert columns.split()[:4] == ["OF", "FIELD", "VALUE", "WHY"]
    assert note.split()[:3] == ["tick", "relative", "true"]
    assert result.stderr == "1 new, 1 notes; hours without a zone are UTC\n"


def test_a_line_for_each_start_of_the_deployment_has_no_next_time(api: FakeApi) -> None:
    result = run("-", "--from", "crontab", "--url", URL, "--dry-run", "--json", text=AT_REBOOT)
    [job] = jobs_of(result)
    assert (job["status"], job["next_run_at"]) == ("new", None)
    assert (job["body"]["schedule_expr"], job["body"]["dialect"]) == ("@reboot", "vixie")


def test_a_dry_run_in_json_holds_the_whole_body(api: FakeApi) -> None:
    result = run("-", "--dry-run", "--json", text=TICK)
    [job] = jobs_of(result)
    assert job["body"]["payload"] == {"args": [], "kwargs": {}}
    assert (job["status"], job["notes"][0]["field"]) == ("new", "relative")


def test_an_import_asks_and_registers_when_told_so(api: FakeApi, tmp_path: Path) -> None:
    path = file(tmp_path, TICK)
    no = run(path, text="n\n")
    assert (no.exit_code, api.jobs) == (1, {})
    assert "Register 1 job?" in no.stderr
    yes = run(path, text="y\n")
    assert yes.exit_code == 0, yes.output
    assert list(api.jobs) == ["tick"]


@pytest.mark.parametrize("args", [["-"], ["--json", "-"]])
def test_where_nobody_can_be_asked_yes_must_be_said(api: FakeApi, args: list[str]) -> None:
    result = run(*args, text=TICK)
    assert result.exit_code == 2
    assert "say --yes, or --dry-run" in result.output
    assert run(*args, "--yes", text=TICK).exit_code == 0
    assert list(api.jobs) == ["tick"]


def test_what_is_refused_holds_up_nothing_and_ends_with_1(api: FakeApi) -> None:
    result = run("-", "--yes", "--json", text=BROKEN)
    assert result.exit_code == 1
    told = {job["place"]: (job["status"], job["reason"]) for job in jobs_of(result)}
    assert told["good"] == ("created", None)
    assert told["bad"][0] == "refused"
    assert "schedule must be seconds" in told["bad"][1]
    assert run("-", "--dry-run", text=BROKEN).exit_code == 1


def test_what_the_api_refuses_is_told_with_its_reason(api: FakeApi) -> None:
    api.refuses["tick"] = "payload: too long"
    result = run("-", "--yes", "--json", text=TICK)
    assert result.exit_code == 1
    [job] = jobs_of(result)
    assert (job["status"], job["reason"]) == ("refused", "payload: too long")


def test_importing_again_keeps_what_is_there(api: FakeApi) -> None:
    run("-", "--yes", text=TICK)
    before = api.jobs["tick"]
    result = run("-", "--yes", "--json", text=TICK.replace("30", "60"))
    assert result.exit_code == 0
    assert jobs_of(result)[0]["status"] == "exists"
    assert api.jobs["tick"] is before


def test_importing_again_replaces_if_told_so(api: FakeApi) -> None:
    run("-", "--yes", text=TICK)
    result = run("-", "--yes", "--on-conflict", "replace", "--json", text=TICK.replace("30", "60"))
    assert jobs_of(result)[0]["status"] == "replaced"
    assert api.jobs["tick"]["schedule_expr"] == "every 1m"


def test_a_job_to_be_paused_begins_paused(api: FakeApi) -> None:
    result = run("-", "--yes", "--paused", "--json", text=TICK)
    assert result.exit_code == 0, result.output
    assert api.asked == [("post",)]
    assert api.jobs["tick"]["paused"] is True
    assert jobs_of(result)[0]["paused"] is True


def test_a_job_that_is_replaced_paused_is_paused_first(api: FakeApi) -> None:
    run("-", "--yes", text=TICK)
    api.asked.clear()
    run("-", "--yes", "--paused", "--on-conflict", "replace", text=TICK)
    assert api.asked == [("post",), ("post", "tick", "pause"), ("put", "tick")]


def test_several_files_are_one_import_and_no_two_jobs_have_one_id(
    api: FakeApi, tmp_path: Path
) -> None:
    one, two = file(tmp_path, TICK), file(tmp_path, TICK, "other.json")
    result = run(one, two, "--yes", "--json", "--prefix", "eu.")
    assert list(api.jobs) == ["eu.tick", "eu.tick-2"]
    assert [job["place"] for job in jobs_of(result)] == [f"{one}: tick", f"{two}: tick"]


def test_a_target_map_names_targets_and_what_it_names_in_vain_is_told(
    api: FakeApi, tmp_path: Path
) -> None:
    url = "https://example.com/tick"
    targets = f"app.tick: {{type: http, url: '{url}'}}\napp.tock: {{type: worker}}\n"
    result = run("-", "--yes", "--target-map", file(tmp_path, targets, "map.yaml"), text=TICK)
    assert api.jobs["tick"]["target"] == {"type": "http", "url": url}
    assert "app.tock" in result.stdout


def test_the_group_and_the_zone_hold_for_all(api: FakeApi) -> None:
    text = '{"beat_schedule": {"a": {"task": "t", "schedule": "0 3 * * *"}}}'
    run("-", "--yes", "--group", "ops", "--timezone", "Asia/Tokyo", text=text)
    assert (api.jobs["a"]["group"], api.jobs["a"]["timezone"]) == ("ops", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        (["--timezone", "Mars/Base"], 2, "--timezone"),
        (["--group", "a b"], 2, "--group"),
        (["--prefix", "-a"], 2, "--prefix"),
        (["--from", "at"], 2, "--from"),
        (["--url", "https://example.com", "--shell"], 2, "either --url or --shell"),
        (["--shell"], 1, "celery has no commands"),
        (["--from", "quartz"], 1, "-: not XML"),
        (["--from", "apscheduler"], 1, "-: an export is a mapping"),
    ],
)
def test_a_wrong_option_registers_nothing(
    api: FakeApi, args: list[str], code: int, why: str
) -> None:
    result = run("-", "--yes", *args, text=TICK)
    assert result.exit_code == code
    assert why in result.output
    assert api.asked == []


@pytest.mark.parametrize("text", ["[]", "a: 1", "a: {url: x}", "a: [", ""])
def test_a_target_map_that_is_none_registers_nothing(
    api: FakeApi, tmp_path: Path, text: str
) -> None:
    result = run("-", "--yes", "--target-map", file(tmp_path, text, "map.yaml"), text=TICK)
    assert result.exit_code == 2
    assert "--target-map" in result.output
    assert api.asked == []


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.[jyx]*")), ids=lambda path: path.name)
def test_every_sample_is_taken_as_far_as_it_can_be(api: FakeApi, path: Path) -> None:
    result = run(str(path), "--yes", "--json")
    told = json.loads(result.stdout)["jobs"]
    assert [job["job_id"] for job in told if job["status"] == "created"] == list(api.jobs)
    assert len(api.jobs) >= 2
    assert {job["status"] for job in told} <= {"created", "refused"}
