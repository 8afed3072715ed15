"""`waterclock plan`, `apply` and `export` over the real API: what is declared comes to stand, once,
and what stands can be declared again."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import calling
import httpx
import jsonschema_rs
import pytest
from click.testing import CliRunner, Result

from engine.cli import bulk, live, main, options
from engine.cli.applying import CHANGED, TAKEN, Applying
from engine.cli.client import Api, Refused
from engine.cli.declaring import make_plan
from engine.cli.live import FEW, Scope
from engine.clock import ManualClock
from engine.declared import SECTIONS, Source
from engine.importers.documents import read_documents

client = calling.client
clock = calling.clock

BILLING = """
waterclock: 1
owner: billing
defaults:
  target: {type: worker, timeout_ms: 5000}
  group: billing
  retry: {max_attempts: 5}
jobs:
  report:
    schedule_expr: "30 9 * * 1-5"
    timezone: Europe/Paris
    calendars: [paris]
  mail:
    depends_on: [report]
    payload: {to: [you, null]}
    target: {handler: mail}
calendars:
  paris: {timezone: Europe/Paris, exclude: ["2027-12-24"]}
queues:
  default: {concurrency: 5, rate: 2}
hosts:
  example.com: {rate: 0.5}
"""
NOTHING = (0, "0 to add, 0 to change, 0 to delete")


class Bridge(Api):
    """The command line's API over the test's own client, from other threads."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        super().__init__("http://localhost")
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.sent: list[tuple[str, str]] = []

    def _exchange(
        self, method: str, path: tuple[str, ...], **more: Any
    ) -> tuple[Any, Mapping[str, str]]:
        url = "/".join(("/v1", *(quote(part, safe="") for part in path)))
        if (method, url) != ("POST", "/v1/schedules/preview") and method != "GET":
            self.sent.append((method, url))
        given = {name: value for name, value in more.get("query", {}).items() if value is not None}
        lines, version = more.get("lines"), more.get("version")
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        if lines is not None:
            headers["Content-Type"] = "application/x-ndjson"
        what: dict[str, Any] = {"content": lines} if lines is not None else {}
        if more.get("body") is not None:
            what = {"json": more["body"]}
        asking = self._client.request(method, url, params=given, headers=headers, **what)
        answer = asyncio.run_coroutine_threadsafe(asking, self._loop).result(30)
        if answer.is_error:
            raise Refused(answer.json())
        if lines is not None:
            return [json.loads(line) for line in answer.text.splitlines()], answer.headers
        return answer.json() if answer.content else None, answer.headers


@pytest.fixture
async def api(
    client: httpx.AsyncClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Bridge:
    bridge = Bridge(client)
    monkeypatch.setattr(options, "Api", lambda *_: bridge)
    monkeypatch.setattr(time, "time", lambda: clock.now_ms() / 1000)
    return bridge


async def run(*args: str, text: str | None = None) -> Result:
    """Return what a command came to. In a thread of its own: the API's loop runs in this one."""
    return await asyncio.to_thread(CliRunner().invoke, main, list(args), input=text)


async def plan(text: str, *args: str) -> tuple[int, str]:
    """Return the exit code, and what is counted at the end."""
    result = await run("plan", "-", *args, text=text)
    assert result.exit_code != 1, result.output
    return result.exit_code, result.stdout.splitlines()[-1].rpartition(",")[0]


async def apply(text: str, *args: str, code: int = 0) -> Result:
    result = await run("apply", "-", "--yes", *args, text=text)
    assert result.exit_code == code, result.output
    return result


async def refusals(text: str) -> str:
    """Return what is wrong with a file; nothing may have been sent."""
    result = await run("apply", "-", "--yes", text=text)
    assert result.exit_code == 1
    return result.stderr


async def jobs(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await client.get("/v1/jobs", params={"limit": 1000})
    return {job["job_id"]: job for job in answer.json()["jobs"]}


def declare(**entries: Any) -> str:
    """Return a file of jobs for workers."""
    usual = {"target": {"type": "worker"}, "schedule_expr": "0 9 * * *"}
    return json.dumps({"waterclock": 1, "defaults": usual, "jobs": entries})


async def test_what_is_declared_comes_to_stand_and_then_there_is_nothing_to_do(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    assert await plan(BILLING) == (2, "5 to add, 0 to change, 0 to delete")
    assert api.sent == []
    assert "5 done, 0 failed" in (await apply(BILLING)).stdout
    stand = await jobs(client)
    report, mail = stand["report"], stand["mail"]
    assert report["next_run_at"] == "2027-01-15T08:30:00.000Z"
    assert (report["group"], report["tags"]) == ("billing", ["owner.billing"])
    assert (report["retry"]["max_attempts"], report["calendars"]) == (5, ["paris"])
    assert mail["target"] == {"type": "worker", "handler": "mail", "timeout_ms": 5000}
    assert (mail["depends_on"][0]["job"], mail["payload"]) == ("report", {"to": ["you", None]})
    assert (await client.get("/v1/queues/default")).json()["concurrency"] == 5
    assert (await client.get("/v1/hosts/example.com")).json()["rate"] == 0.5

    api.sent.clear()
    assert await plan(BILLING) == NOTHING
    await apply(BILLING)
    assert api.sent == []
    assert await jobs(client) == stand


async def test_only_what_differs_is_changed_field_by_field(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(declare(a={}, b={"retry": {"max_attempts": 3}, "payload": 1}))
    before = await jobs(client)
    api.sent.clear()
    after = declare(a={}, b={"retry": {"max_attempts": 7}, "payload": True})
    shown = (await run("plan", "-", text=after)).stdout
    assert shown.splitlines()[:3] == [
        "~ job b",
        "    payload: 1 → true",
        "    retry.max_attempts: 3 → 7",
    ]
    await apply(after)
    assert api.sent == [("PUT", "/v1/jobs/b")]
    stand = await jobs(client)
    assert stand["a"] == before["a"]
    assert (stand["b"]["version"], stand["b"]["retry"]["max_attempts"]) == (2, 7)
    assert stand["b"]["next_run_at"] == before["b"]["next_run_at"]


async def test_a_schedule_is_held_against_the_times_it_had(api: Bridge) -> None:
    await apply(declare(a={"schedule_expr": "0 9 * * 1-5"}))
    same = await run("plan", "-", text=declare(a={"schedule_expr": "0 9 * * MON-FRI"}))
    assert "same times" in same.stdout
    other = declare(a={"schedule_expr": "0 9,21 * * 1-5"})
    found = json.loads((await run("plan", "-", "--json", text=other)).stdout)
    [step] = found["steps"]
    assert step["times"]["removed"] == []
    assert step["times"]["added"][0] == "2027-01-15T21:00:00.000Z"
    assert len(step["times"]["added"]) == 5


async def test_what_a_spelling_leaves_the_same_is_no_change(api: Bridge) -> None:
    await apply(declare(a={"start_at": "2027-02-01T00:00:00Z", "depends_on": []}))
    same = {"start_at": "2027-02-01T01:00:00+01:00", "dialect": "vixie", "queue": "default"}
    assert await plan(declare(a=same)) == NOTHING


async def test_an_owner_s_jobs_go_when_they_are_gone_from_the_files(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(declare(other={}))
    await apply(BILLING)
    left = BILLING.replace("depends_on: [report]", 'schedule_expr: "@daily"').replace(
        "  report:", "  renamed:"
    )
    assert await plan(left) == (2, "1 to add, 1 to change, 1 to delete")
    await apply(left)
    assert {*await jobs(client)} == {"mail", "other", "renamed"}
    await apply("waterclock: 1\nowner: billing\njobs: {}\n")
    assert {*await jobs(client)} == {"other"}
    # Calendars and limits stay.
    assert (await client.get("/v1/calendars/paris")).status_code == 200


async def test_dependents_go_before_what_they_depend_on(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    chain = {"a": {}, "c": {"depends_on": ["b"]}, "b": {"depends_on": ["a"]}}
    text = json.dumps(
        {
            "waterclock": 1,
            "owner": "me",
            "defaults": {"target": {"type": "worker"}},
            "jobs": {name: {"schedule_expr": None, **body} for name, body in chain.items()}
            | {"a": {"schedule_expr": "@daily"}},
        }
    )
    await apply(text)
    assert {*await jobs(client)} == {"a", "b", "c"}
    assert await plan(text) == NOTHING
    await apply('{"waterclock": 1, "owner": "me"}')
    assert await jobs(client) == {}


async def test_no_owner_takes_a_job_from_another(api: Bridge, client: httpx.AsyncClient) -> None:
    await apply(BILLING)
    before = await jobs(client)
    said = await refusals(BILLING.replace("owner: billing", "owner: sales"))
    assert "standard input:9: jobs.report: this job belongs to owner billing" in said
    assert "belongs to owner billing" in await refusals(declare(mail={}))
    assert await jobs(client) == before


async def test_without_an_owner_only_what_is_pruned_goes(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(declare(a={"group": "g"}, b={"group": "g"}, c={}, pre1={}, pre2={}))
    await apply(declare(a={"group": "g"}))
    assert len(await jobs(client)) == 5
    await apply(declare(a={"group": "g"}), "--prune", "--group", "g")
    assert {*await jobs(client)} == {"a", "c", "pre1", "pre2"}
    await apply(declare(pre2={}), "--prune", "--prefix", "pre")
    assert {*await jobs(client)} == {"a", "c", "pre2"}
    assert (await run("plan", "-", "--prune", text=declare())).exit_code == 1
    assert (await run("plan", "-", "--group", "g", text=declare())).exit_code == 1


async def test_a_prune_keeps_its_hands_off_what_has_an_owner(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(BILLING)
    result = await apply(declare(), "--prune", "--group", "billing")
    assert {*await jobs(client)} == {"mail", "report"}
    assert "job mail: it stays, since it has the tag owner.billing" in result.stderr


async def test_calendars_and_limits_go_when_all_is_pruned(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(BILLING)
    await apply('{"waterclock": 1, "owner": "billing"}', "--prune-all")
    assert (await client.get("/v1/calendars/paris")).status_code == 404
    assert (await client.get("/v1/queues/default")).json()["concurrency"] is None
    assert (await client.get("/v1/hosts/example.com")).json()["rate"] is None
    assert await plan('{"waterclock": 1}', "--prune-all") == NOTHING


async def carry_out(
    api: Bridge, text: str, between: Callable[[], Awaitable[None]]
) -> list[tuple[str, str]]:
    """Plan, have somebody change things, and then apply; return what was not done, and why."""
    found = await asyncio.to_thread(make_plan, api, [Source("f", text)], Scope())
    assert not found.faults
    await between()
    applying = Applying(api, lambda _: None)
    await asyncio.to_thread(applying.run, found)
    return [(one.step.name, one.reason) for one in applying.failures]


async def test_nothing_is_overwritten_that_changed_since_the_plan(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(BILLING)
    changed = (BILLING.replace("30 9", "45 9").replace("concurrency: 5", "concurrency: 6")).replace(
        "2027-12-24", "2027-12-25"
    )

    async def edit() -> None:
        await client.patch("/v1/jobs/report", json={"payload": "mine"})
        await client.put("/v1/queues/default", json={"concurrency": 9})
        await client.put("/v1/calendars/paris", json={"exclude": ["2027-01-01"]})

    failed = await carry_out(api, changed, edit)
    assert failed == [("paris", CHANGED), ("default", CHANGED), ("report", CHANGED)]
    report = (await jobs(client))["report"]
    assert (report["payload"], report["schedule_expr"]) == ("mine", "30 9 * * 1-5")
    assert (await client.get("/v1/queues/default")).json()["concurrency"] == 9


async def test_a_job_that_somebody_made_or_edited_since_the_plan_stays(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    await apply(
        '{"waterclock": 1, "owner": "me", "jobs": {"old": {"target": {"type": "worker"}, '
        '"schedule_expr": "@daily"}}}'
    )

    async def edit() -> None:
        await calling.create(client, {**calling.CRON, "job_id": "new"})
        await client.patch("/v1/jobs/old", json={"payload": "mine"})

    text = '{"waterclock": 1, "owner": "me", "jobs": {"new": {"target": {"type": "worker"}}}}'
    assert await carry_out(api, text, edit) == [("new", TAKEN), ("old", CHANGED)]
    assert (await jobs(client))["old"]["payload"] == "mine"


async def test_one_that_fails_stops_no_other_and_is_listed(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    inside = {"schedule_expr": "@daily", "target": {"type": "http", "url": "http://10.0.0.1/"}}
    result = await apply(declare(a={}, b=inside, c={}), code=1)
    assert {*await jobs(client)} == {"a", "c"}
    assert "2 done, 1 failed" in result.stdout
    assert "target_not_public" in result.stdout
    assert await plan(declare(a={}, b=inside, c={})) == (2, "1 to add, 0 to change, 0 to delete")


async def test_of_many_requests_each_answer_is_told_of_its_job(
    api: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_LINES", 2)
    inside = {"target": {"type": "http", "url": "http://10.0.0.1/"}}
    result = await apply(declare(a={}, b={}, c={}, d=inside, e={}), "--json", code=1)
    assert len(api.sent) == 3
    assert [one["name"] for one in json.loads(result.stdout)["failed"]] == ["d"]


async def test_a_file_says_what_is_paused_and_a_hand_is_left_alone(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    async def state(job_id: str = "a") -> str:
        return str((await jobs(client))[job_id]["state"])

    await apply(declare(a={"paused": True}, b={}))
    assert (await state(), await state("b")) == ("paused", "active")
    assert await plan(declare(a={"paused": True}, b={})) == NOTHING
    await apply(declare(a={}, b={"paused": True}))
    assert (await state(), await state("b")) == ("active", "paused")
    await apply(declare(a={}, b={}))
    assert await state("b") == "active"
    # Nobody was given another definition.
    assert {job["version"] for job in (await jobs(client)).values()} == {1}

    await client.post("/v1/jobs/a/pause", json={"note": "an incident"})
    result = await run("plan", "-", text=declare(a={}, b={}))
    assert result.exit_code == 0
    assert "job a: it is paused, not by a file, and stays so" in result.stderr
    await apply(declare(a={"paused": False}))
    assert await state() == "active"


async def test_a_time_that_has_passed_is_no_reason_to_do_anything(
    api: Bridge, client: httpx.AsyncClient, clock: ManualClock
) -> None:
    once = {"schedule_expr": "2027-01-15T09:00:00Z"}
    await apply(declare(a=once))
    clock.advance(2 * 3_600_000)
    assert await plan(declare(a=once)) == NOTHING
    assert await plan(declare(a={**once, "payload": 1}, b=once)) == NOTHING
    # One that ran at once is through as well.
    await calling.create(client, calling.AT_ONCE)
    result = await run("export")
    assert "jobs: {}" in result.stdout
    assert "left out, since their times are over: 2 (--all)" in result.stderr
    found = json.loads((await run("export", "--all", "--json")).stdout)
    assert {*found["jobs"]} == {"a", "mail"}


async def test_a_job_that_would_come_back_at_each_apply_is_refused(api: Bridge) -> None:
    gone = {"delete_after_completion": True, "max_runs": 1}
    assert "jobs.a.delete_after_completion: once it has gone" in await refusals(declare(a=gone))
    once = {"delete_after_completion": True, "schedule_expr": "2027-01-15T09:00:00Z"}
    await apply(declare(a=once))
    assert await plan(declare(a=once)) == NOTHING


async def test_a_circle_and_an_upstream_that_is_to_go_are_refused(api: Bridge) -> None:
    circle = {
        "a": {"schedule_expr": None, "depends_on": ["b"]},
        "b": {"schedule_expr": None, "depends_on": ["a"]},
    }
    assert "depend on themselves: " in await refusals(declare(**circle))
    await apply(BILLING)
    gone = BILLING.replace("  report:", "  renamed:")
    assert "jobs.mail.depends_on.0: report is to be deleted" in await refusals(gone)


async def test_all_that_is_wrong_is_told_at_once_with_its_line(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    said = await refusals(
        """
waterclock: 1
defaults:
  target: {type: worker, oops: 1}
jobs:
  a:
    schedule_expr: "61 * * * *"
    retries: 3
  b:
    schedule_expr: every 5m
    calendars: [nope]
    tags:
      - ok
      - not ok
queues:
  q: {concurrency: 0}
calendars:
  c: {weekdays: [XX]}
"""
    )
    places = {line.partition(": ")[0] for line in said.removeprefix("Error: ").splitlines()}
    assert places == {f"standard input:{line}" for line in (4, 7, 8, 11, 14, 16, 18)}
    assert "defaults.target.oops: there is no such field" in said
    assert said.count("oops") == 1
    assert api.sent == []


async def test_a_file_of_many_jobs_reads_pages_and_adds_with_few_requests(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    text = declare(**{f"many-{n}": {} for n in range(FEW + 1)})
    await apply(text)
    assert api.sent == [("POST", "/v1/jobs/bulk")]
    assert len(await jobs(client)) == FEW + 1
    assert await plan(text) == NOTHING


async def test_an_export_is_declared_again_to_the_byte(
    api: Bridge, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    await apply(BILLING)
    await client.post("/v1/jobs/report/pause")
    first = (await run("export")).stdout
    assert "  # At 09:30 on Monday to Friday\n  report:\n    schedule_expr: 30 9 * * 1-5" in first
    assert "max_attempts: 5" in first
    assert "misfire" not in first
    assert re.findall(r".*[ \t]$", first, re.MULTILINE) == []
    assert await plan(first) == NOTHING
    as_json = (await run("export", "--format", "json")).stdout
    assert await plan(as_json) == NOTHING

    owned = (await run("export", "--owner", "billing")).stdout
    assert "owner: billing" in owned
    assert "tags" not in owned
    assert "queues" not in owned
    assert await plan(owned) == NOTHING

    await apply('{"waterclock": 1, "owner": "billing"}', "--prune-all")
    assert "jobs: {}" in (await run("export")).stdout
    (tmp_path / "jobs.yaml").write_text(first)
    result = await run("apply", str(tmp_path), "--yes")
    assert result.exit_code == 0, result.output
    assert (await run("export")).stdout == first


async def test_filters_of_an_export_are_those_of_the_search(api: Bridge) -> None:
    await apply(declare(a={"group": "g"}, b={"tags": ["t"]}, ab={}))
    for args, ids in (
        (("--group", "g"), {"a"}),
        (("--tag", "t"), {"b"}),
        (("--prefix", "a"), {"a", "ab"}),
    ):
        found = json.loads((await run("export", "--json", *args)).stdout)
        assert {*found["jobs"]} == ids


async def test_a_plan_shows_no_secret(api: Bridge) -> None:
    def call(secret: str) -> str:
        headers = {"Authorization": secret}
        target = {"type": "http", "url": f"https://example.com/?key={secret}", "headers": headers}
        return declare(a={"target": target})

    await apply(call("s3cret"))
    for args in ((), ("--json",)):
        result = await run("plan", "-", *args, text=call("n3wer"))
        assert result.exit_code == 2
        assert "target.headers" in result.stdout
        assert "s3cret" not in result.output
        assert "n3wer" not in result.output


async def test_apply_asks_first_and_a_dry_run_changes_nothing(api: Bridge, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(declare(a={}))
    assert (await run("apply", str(path), text="n\n")).exit_code == 1
    assert "+ job a" in (await run("apply", str(path), "--dry-run")).stdout
    assert (await run("apply", "-", text=declare(a={}))).exit_code == 2
    assert api.sent == []
    assert (await run("apply", str(path), text="y\n")).exit_code == 0
    assert api.sent == [("POST", "/v1/jobs/bulk")]


async def test_what_the_readme_shows_can_be_applied(api: Bridge) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    [text] = re.findall(r"## Jobs in git\n\n```yaml\n(.*?)```", readme, re.DOTALL)
    await apply(text)
    assert await plan(text) == NOTHING


async def test_the_schema_of_the_files_takes_what_plan_takes() -> None:
    printed = json.loads((await run("schema")).stdout)
    schema = jsonschema_rs.validator_for(printed)
    assert printed["properties"].keys() == {"waterclock", "owner", "defaults", *SECTIONS}
    assert printed["additionalProperties"] is False
    [declared] = read_documents(BILLING, plain=True)
    schema.validate(declared)
    as_list = [{"job_id": name, **body} for name, body in declared["jobs"].items()]
    schema.validate({**declared, "jobs": as_list})
    for wrong in (
        {"jobs": {"a": {"retries": 3}}},
        {"jobs": {"a": {"target": {"type": "worker", "url": "https://a.test/"}}}},
        {"jobs": {"a": {"priority": "urgent"}}},
        {"queues": {"q": {"concurrency": 0}}},
        {"other": 1},
        {"waterclock": 2},
    ):
        assert not schema.is_valid({"waterclock": 1, **wrong}), wrong


async def test_an_export_says_no_more_than_it_must(api: Bridge) -> None:
    entries: dict[str, dict[str, Any]] = {
        "a": {},
        "below": {"schedule_expr": None, "depends_on": ["a"], "match": "latest"},
        "gated": {"depends_on": [{"job": "a", "condition": "failed"}], "gate": True},
        "hashed": {"schedule_expr": "H H * * *", "queue": "mail"},
        "named": {"schedule_expr": "0 0 9 ? * MON", "dialect": "quartz", "payload": False},
        "often": {"schedule_expr": "every 15m", "overlap": "allow"},
    }
    await apply(declare(**entries))
    found = json.loads((await run("export", "--json")).stdout)
    usual = {"schedule_expr": "0 9 * * *", "target": {"type": "worker"}}
    bodies = {name: {**usual, **body} for name, body in entries.items()}
    del bodies["below"]["schedule_expr"]
    assert found == {"waterclock": 1, "jobs": bodies}


async def test_long_lists_are_read_to_their_end(
    api: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PAGE", 2)
    text = declare(**{name: {} for name in "abcde"})
    hosts = {f"{name}.test": {"rate": 1} for name in "abc"}
    text = json.dumps({**json.loads(text), "owner": "me", "hosts": hosts})
    await apply(text)
    assert await plan(text) == NOTHING
    found = json.loads((await run("export", "--json")).stdout)
    assert (len(found["jobs"]), len(found["hosts"])) == (5, 3)
    assert await plan('{"waterclock": 1, "owner": "me"}') == (
        2,
        "0 to add, 0 to change, 5 to delete",
    )
