"""`waterclock jobs …`: what is sent for a command line, and what is printed of the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

JOB = {
    "job_id": "nightly",
    "state": "active",
    "schedule_expr": "0 2 * * *",
    "timezone": "Europe/Zurich",
    "target": {"type": "http", "url": "http://127.0.0.1/x"},
    "payload": {"a": [1]},
    "queue": "http",
    "next_run_at": "2026-12-01T01:00:00.000Z",
    "live_executions": 0,
}

Call = tuple[str, tuple[str, ...], object]


class FakeApi:
    """Keeps what it is asked, and answers `answer`."""

    answer: Any = JOB

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[Call] = []

    def get(self, *path: str, **query: object) -> Any:
        self.calls.append(("GET", path, {k: v for k, v in query.items() if v is not None}))
        return self.answer

    def post(self, *path: str, body: object = None) -> Any:
        self.calls.append(("POST", path, body))
        return self.answer

    def patch(self, *path: str, body: object, version: int | None = None) -> Any:
        self.calls.append(("PATCH", path, body if version is None else (body, version)))
        return self.answer

    def put(self, *path: str, body: object, version: int | None = None) -> Any:
        self.calls.append(("PUT", path, body if version is None else (body, version)))
        return self.answer

    def delete(self, *path: str, **query: object) -> None:
        given = {k: v for k, v in query.items() if v is not None}
        self.calls.append(("DELETE", path, given or None))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()

    def opened(url: str, *_: object) -> FakeApi:
        api.url = url
        return api

    monkeypatch.setattr(options, "Api", opened)
    return api


def jobs(*args: str) -> Result:
    return CliRunner().invoke(main, ["jobs", *args])


def added(api: FakeApi, *args: str) -> Any:
    """Return the body that `jobs add` sends for these arguments."""
    result = jobs("add", *args)
    assert result.exit_code == 0, result.output
    [(method, path, body)] = api.calls
    assert (method, path) == ("POST", ("jobs",))
    return body


def test_add_sends_what_was_given_and_nothing_else(api: FakeApi) -> None:
    target = {"type": "http", "url": "http://127.0.0.1/"}
    assert added(api, "--url", "http://127.0.0.1/") == {"target": target}


def test_add_sends_every_option(api: FakeApi) -> None:
    args = """--id a --schedule @daily --timezone Asia/Tokyo --queue slow --timeout-ms 500
        --max-attempts 7 --retry-base-ms 0 --retry-max-ms 9 --retry-jitter full --misfire skip
        --grace-ms 0 --max-catch-up 5 --overlap queue_one --dialect vixie --dst-gap skip
        --dst-overlap both --start-at 2027-01-01T00:00:00Z --end-at 2028-01-01T00:00:00Z
        --window-ms 60000 --calendar a --calendar b --roll next_business_day --max-runs 3
        --priority high --group acme --concurrency 2
        --expires-after-ms 9 --pause-after-failures 2 --delete-after-completion
        --depends-on a --depends-on b:c --depends-on b:c:failed --join any --match same_time
        --gate --gate-deadline-ms 5 --allow-missing
        --url http://127.0.0.1/ --payload"""
    headers = ["--header", "X-A: 1", "--header", "X-B:a:b"]
    assert added(api, *args.split(), '{"n": [1.5, null]}', *headers) == {
        "job_id": "a",
        "schedule_expr": "@daily",
        "timezone": "Asia/Tokyo",
        "queue": "slow",
        "target": {
            "type": "http",
            "url": "http://127.0.0.1/",
            "headers": {"X-A": "1", "X-B": "a:b"},
            "timeout_ms": 500,
        },
        "payload": {"n": [1.5, None]},
        "retry": {"max_attempts": 7, "base_ms": 0, "max_ms": 9, "jitter": "full"},
        "misfire": {"policy": "skip", "grace_ms": 0, "max_catch_up": 5},
        "overlap": "queue_one",
        "dialect": "vixie",
        "dst_gap": "skip",
        "dst_overlap": "both",
        "start_at": "2027-01-01T00:00:00Z",
        "end_at": "2028-01-01T00:00:00Z",
        "window_ms": 60_000,
        "calendars": ["a", "b"],
        "roll": "next_business_day",
        "priority": "high",
        "group": "acme",
        "concurrency": 2,
        "max_runs": 3,
        "expires_after_ms": 9,
        "pause_after_failures": 2,
        "delete_after_completion": True,
        "depends_on": ["a", "b:c", {"job": "b:c", "condition": "failed"}],
        "join": "any",
        "match": "same_time",
        "gate": True,
        "gate_deadline_ms": 5,
        "allow_missing": True,
    }


def test_add_sends_every_option_of_a_command(api: FakeApi) -> None:
    args = ["--command", "a | b", "--cwd", "/srv", "--env", "A=1=2", "--env", "B="]
    body = added(api, *args, "--stdin", "in\n", "--user", "app", "--timeout-ms", "500")
    assert body == {
        "target": {
            "type": "shell",
            "command": "a | b",
            "cwd": "/srv",
            "env": {"A": "1=2", "B": ""},
            "stdin": "in\n",
            "user": "app",
            "timeout_ms": 500,
        }
    }


def test_add_sends_every_option_of_a_target_that_answers_later(api: FakeApi) -> None:
    args = ["--url", "https://a.example/", "--respond-async", "--heartbeat-ms", "9000"]
    more = ["--follow-redirects", "2", "--signing", "job", "--template", "--paused"]
    assert added(api, *args, *more) == {
        "target": {
            "type": "http",
            "url": "https://a.example/",
            "respond_async": True,
            "heartbeat_ms": 9000,
            "follow_redirects": 2,
            "signing": "job",
            "template": True,
        },
        "paused": True,
    }


def test_add_takes_fields_from_a_file_and_options_over_them(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"target": {"type": "worker"}, "queue": "mail", "payload": 1}')
    body = added(api, "--file", str(file), "--queue", "slow")
    assert body == {"target": {"type": "worker"}, "queue": "slow", "payload": 1}
    for verb, method in (("replace", "PUT"), ("edit", "PATCH")):
        assert jobs(verb, "a", "--file", str(file), "--queue", "slow").exit_code == 0
        assert api.calls[-1] == (method, ("jobs", "a"), body)


@pytest.mark.parametrize(
    ("text", "reason"), [("[]", "holds no JSON object"), ("{", "is not JSON"), ("", "is not JSON")]
)
def test_a_file_that_is_no_definition_is_refused(
    api: FakeApi, tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "job.json"
    file.write_text(text)
    result = jobs("add", "--file", str(file))
    assert (result.exit_code, reason in result.output, api.calls) == (1, True, [])


def test_add_joins_several_schedules(api: FakeApi) -> None:
    body = added(api, "--worker", "--schedule", "@daily", "--schedule", "0 12 * * 1")
    assert body == {"target": {"type": "worker"}, "schedule_expr": ["@daily", "0 12 * * 1"]}


def test_add_names_the_handler_of_consumers(api: FakeApi) -> None:
    body = added(api, "--worker", "--handler", "welcome")
    assert body == {"target": {"type": "worker", "handler": "welcome"}}


@pytest.mark.parametrize("text", ["{}", "[]", "0", "false", '""', "12345678901234567890"])
def test_add_sends_payloads_that_look_empty_or_are_long(api: FakeApi, text: str) -> None:
    body = added(api, "--worker", "--payload", text)
    assert body == {"target": {"type": "worker"}, "payload": json.loads(text)}


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ([], "one of --url, --worker and --command"),
        (["--url", "http://127.0.0.1/", "--worker"], "one of --url, --worker and --command"),
        (["--url", "http://127.0.0.1/", "--command", "a"], "one of --url, --worker and --command"),
        (["--url", "http://127.0.0.1/", "--cwd", "/"], "with --command"),
        (["--command", "a", "--header", "A: 1"], "go with --url"),
        (["--worker", "--env", "A=1"], "none of them, with --worker"),
        (["--url", "http://127.0.0.1/", "--handler", "a"], "none of them, with --worker"),
        (["--command", "a", "--env", "A"], "NAME=value"),
        (["--worker", "--header", "A: 1"], "go with --url"),
        (["--worker", "--timeout-ms", "1"], "go with --url"),
        (["--url", "http://127.0.0.1/", "--header", "A"], "Name: value"),
        (["--worker", "--payload", "hello"], "not JSON"),
        (["--worker", "--payload", "NaN"], "NaN is no number in JSON"),
        (["--worker", "--overlap", "queue"], "--overlap"),
    ],
)
def test_add_refuses_a_wrong_command_line_and_sends_nothing(
    api: FakeApi, args: list[str], reason: str
) -> None:
    result = jobs("add", *args)
    assert result.exit_code == 2
    assert reason in result.output
    assert api.calls == []


@pytest.mark.parametrize(
    ("args", "call"),
    [
        (["show", "a"], ("GET", ("jobs", "a"), {})),
        (
            ["executions", "a", "--limit", "2"],
            ("GET", ("jobs", "a", "executions"), {"limit": 2}),
        ),
        (["run", "a"], ("POST", ("jobs", "a", "run"), None)),
        (["pause", "a"], ("POST", ("jobs", "a", "pause"), None)),
        (["pause", "a", "--note", "x"], ("POST", ("jobs", "a", "pause"), {"note": "x"})),
        (["resume", "a"], ("POST", ("jobs", "a", "resume"), {})),
        (
            ["resume", "a", "--misfire", "fire_all", "--dry-run"],
            ("POST", ("jobs", "a", "resume"), {"misfire": "fire_all", "dry_run": True}),
        ),
        (["upcoming", "a", "-n", "3"], ("GET", ("jobs", "a", "upcoming"), {"n": 3})),
        (
            ["edit", "a", "--timeout-ms", "9", "--max-attempts", "2", "--reset", "max_runs"],
            (
                "PATCH",
                ("jobs", "a"),
                {"max_runs": None, "target": {"timeout_ms": 9}, "retry": {"max_attempts": 2}},
            ),
        ),
        (
            ["edit", "a", "--queue", "slow", "--if-version", "3"],
            ("PATCH", ("jobs", "a"), ({"queue": "slow"}, 3)),
        ),
        (
            ["edit", "a", "--cwd", "/srv"],
            ("PATCH", ("jobs", "a"), {"target": {"cwd": "/srv"}}),
        ),
        (["delete", "a"], ("DELETE", ("jobs", "a"), None)),
        (
            ["replace", "a", "--worker", "--if-version", "3"],
            ("PUT", ("jobs", "a"), ({"target": {"type": "worker"}}, 3)),
        ),
    ],
)
def test_each_command_is_one_request(api: FakeApi, args: list[str], call: Call) -> None:
    result = jobs(*args, "--json")
    assert result.exit_code == 0, result.output
    assert api.calls == [call]
    told = {"job_id": "a", "deleted": True} if args[0] == "delete" else JOB
    assert json.loads(result.output) == told


def test_edit_refuses_to_change_nothing_and_sends_nothing(api: FakeApi) -> None:
    result = jobs("edit", "a")
    assert (result.exit_code, api.calls) == (2, [])
    assert "say what to change" in result.output


def test_upcoming_is_a_table_of_local_times(api: FakeApi) -> None:
    at = "2026-12-01T01:00:00.000Z"
    local = {"local_time": "2026-12-01T02:00:00.000", "utc_offset": "+01:00"}
    rest = {"zone_abbreviation": "CET", "dst": None, "calendar": "skipped: closed by calendar x"}
    api.answer = [{"scheduled_for": at, "due_at": at, **local, **rest}]
    row = jobs("upcoming", "a").output.splitlines()[1]
    assert row.split(maxsplit=4) == [
        at,
        "2026-12-01T02:00:00.000",
        "CET",
        "+01:00",
        "skipped: closed by calendar x",
    ]


def test_the_api_is_where_the_option_or_the_variable_says(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_API_URL", "http://127.0.0.1:1")
    jobs("show", "a")
    assert api.url == "http://127.0.0.1:1"
    jobs("show", "a", "--api", "http://127.0.0.1:2")
    assert api.url == "http://127.0.0.1:2"


def test_list_is_a_table_and_tells_of_more(api: FakeApi) -> None:
    worker = {**JOB, "job_id": "b" * 128, "queue": "mine", "target": {"type": "worker"}}
    api.answer = {"jobs": [JOB, {**worker, "schedule_expr": None}], "next": "bbb"}
    result = jobs("list", "--limit", "2")
    head, first, second = (line.split() for line in result.stdout.splitlines())
    assert head == ["ID", "STATE", "SCHEDULE", "ZONE", "NEXT", "RUN", "TARGET"]
    when = ["Europe/Zurich", "2026-12-01T01:00:00.000Z"]
    assert first == ["nightly", "active", "0", "2", "*", "*", "*", *when, "http://127.0.0.1/x"]
    assert second == ["b" * 128, "active", "–", *when, "queue", "mine"]
    assert result.stderr == "There are more: --after bbb, or --all\n"


def test_list_asks_for_what_is_wanted(api: FakeApi) -> None:
    api.answer = {"jobs": [], "next": None}
    texts = {"prefix": "a", "group": "acme", "state": "paused", "queue": "mail", "after": "b"}
    times = {"due_after": "2027-01-15T08:00:00Z", "due_before": "2027-01-16T08:00:00Z"}
    options = {**texts, **times}.items()
    words = [word for name, value in options for word in (f"--{name.replace('_', '-')}", value)]
    assert jobs("list", *words, "--tag", "x", "--tag", "y", "--limit", "5").exit_code == 0
    assert jobs("list").exit_code == 0
    assert api.calls == [
        ("GET", ("jobs",), {**texts, **times, "tag": ("x", "y"), "limit": 5}),
        ("GET", ("jobs",), {"limit": 100}),
    ]


def test_list_goes_on_to_the_end_with_all(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [([JOB] * 1_000, "a"), ([JOB] * 5, None)]
    limits = []

    def get(*_: str, **query: object) -> Any:
        limits.append(query["limit"])
        found, following = pages.pop(0)
        return {"jobs": found, "next": following}

    monkeypatch.setattr(api, "get", get, raising=False)
    assert len(json.loads(jobs("list", "--all", "--json").stdout)["jobs"]) == 1_005
    assert limits == [1_000, 1_000]
    pages += [([JOB] * 1_000, "a"), ([JOB] * 500, "b")]
    assert len(json.loads(jobs("list", "--limit", "1500", "--json").stdout)["jobs"]) == 1_500
    assert limits[2:] == [1_000, 500]
    assert jobs("list", "--all", "--limit", "5").exit_code == 2


def test_list_goes_on_after_short_pages_until_it_has_what_was_asked_for(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [([JOB], "a"), ([], "b"), ([JOB], "c")]
    asked: list[dict[str, object]] = []

    def get(*_: str, **query: object) -> Any:
        asked.append({name: query[name] for name in ("limit", "after")})
        found, following = pages.pop(0)
        return {"jobs": found, "next": following}

    monkeypatch.setattr(api, "get", get, raising=False)
    result = jobs("list", "--limit", "2", "--json")
    assert json.loads(result.stdout) == {"jobs": [JOB, JOB], "next": "c"}
    assert asked == [
        {"limit": 2, "after": None},
        {"limit": 1, "after": "a"},
        {"limit": 1, "after": "b"},
    ]


def test_tags_are_sent_as_a_list(api: FakeApi) -> None:
    assert added(api, "--worker", "--tag", "eu", "--tag", "x")["tags"] == ["eu", "x"]


def test_list_shows_the_command_of_a_shell_job(api: FakeApi) -> None:
    api.answer = {"jobs": [{**JOB, "target": {"type": "shell", "command": "echo"}}], "next": None}
    assert jobs("list").stdout.split()[-1] == "echo"


def test_list_keeps_the_query_of_a_url_to_itself(api: FakeApi) -> None:
    hook = {"type": "http", "url": "http://127.0.0.1/x?token=hunter2"}
    api.answer = {"jobs": [{**JOB, "target": hook}], "next": None}
    assert jobs("list").stdout.split()[-1] == "http://127.0.0.1/x?…"


def test_executions_show_the_first_lag_and_the_newest_result(api: FakeApi) -> None:
    at = "2026-12-01T01:00:00.000Z"
    attempt = {"lag_ms": 9, "duration_ms": 40, "status_code": 200, "error": None}
    failed = {"lag_ms": 3, "duration_ms": 5, "status_code": 503, "error": "HTTP 503: \x1b[31mno"}
    skipped = {"status": "skipped", "reason": "late", "count": 12, "count_is_exact": False}
    done = {"scheduled_for": at, "status": "succeeded", "attempt_count": 2}
    api.answer = [
        {"scheduled_for": at, "status": "waiting", "attempt_count": 0, "attempts": []},
        {**done, "attempts": [attempt, failed]},
        {"scheduled_for": at, "status": "retrying", "attempt_count": 1, "attempts": [failed]},
        {**skipped, "scheduled_for": at, "last_scheduled_for": "2026-12-01T01:12:00.000Z"},
    ]
    rows = [line.split(maxsplit=5) for line in jobs("executions", "a").output.splitlines()[1:]]
    assert [[cell.rstrip() for cell in row] for row in rows] == [
        [at, "waiting", "0", "–", "–", "–"],
        [at, "succeeded", "2", "3", "40", "200"],
        [at, "retrying", "1", "3", "5", r"HTTP 503: \x1b[31mno"],
        [at, "skipped", "–", "–", "–", "12 or more until 2026-12-01T01:12:00.000Z: late"],
    ]
