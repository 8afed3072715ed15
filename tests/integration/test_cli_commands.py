"""Every command against an API that runs: what it says, its exit code, and that nothing but JSON
stands on standard output where JSON was asked for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result
from test_cli import ask, running_up

from engine.cli import main

TRIED_ELSEWHERE = {
    "up": "test_cli.py",
    "scheduler": "test_cli.py",
    "worker": "test_cli.py",
    "api": "test_cli.py",
    "keys create": "test_cli_keys.py",
    "keys list": "test_cli_keys.py",
    "keys rotate": "test_cli_keys.py",
    "keys revoke": "test_cli_keys.py",
    "deployment export": "test_transfer_cli.py",
    "deployment import": "test_transfer_cli.py",
    "deployment move": "test_transfer_cli.py",
    "deployment thaw": "test_transfer_cli.py",
    "events": "its tests: it does not end by itself",
}


class Line(NamedTuple):
    """A command line, a pattern that its output has, and its exit code."""

    text: str
    told: str = ""
    code: int = 0


TABLE = {
    "jobs": [
        Line("jobs add --id a --worker --schedule 'every 1h' --tag x", r"(?m)^a  active\n  runs"),
        Line(
            "jobs add --id b --url http://127.0.0.1:9000/x?t=1 --schedule @daily --json", '"job_id"'
        ),
        Line("jobs add --id a --worker", "Error: --id: .*exists", 1),
        Line("jobs add --id c --url ftp://x.example --schedule @daily", "Error: --url: ", 1),
        Line("jobs add --id c --worker --schedule '61 * * * *'", "Error: --schedule: ", 1),
        Line("jobs add --id c --worker --overlap never", "--overlap", 2),
        Line("jobs add --id c --worker --depends-on none", "--allow-missing", 1),
        Line("jobs list", r"(?s)ID .*\na  .*\nb .*x\?…"),
        Line("jobs list --limit 1", "There are more: --after a"),
        Line("jobs list --all --tag x --json", '"next": null'),
        Line("jobs list --due-after never", "Error: --due-after: ", 1),
        Line("jobs show a", "  retry +3 attempts"),
        Line("jobs show b", r"x\?t=1"),
        Line("jobs show none", "Error: ", 1),
        Line("jobs edit a --timezone Asia/Tokyo --if-version 1", "a  active"),
        Line("jobs edit a --timezone UTC --if-version 1", "--if-version", 1),
        Line("jobs edit a --reset tags", "a  active"),
        Line("jobs replace a --worker --schedule 'every 2h'", "every 2h"),
        Line("jobs upcoming a -n 2", "LOCAL TIME"),
        Line("jobs pause a --note why", "paused +.*why"),
        Line("jobs pause a", "Error: ", 1),
        Line("jobs resume a --dry-run", "makes up for"),
        Line("jobs resume a --misfire skip", "a  active"),
        Line("jobs run a", "execution_id"),
        Line("jobs executions a", "waiting"),
        Line("jobs cancel a", "cancelled  1"),
        Line("jobs add --id below --worker --depends-on a", "after a"),
        Line("graph a", "a .*\n└── below"),
        Line("jobs delete a", "--cascade or --detach", 1),
        Line("jobs delete a --detach", "deleted a"),
        Line("jobs delete b --json", '"deleted": true'),
        Line("jobs bulk {dir}/jobs.ndjson", "created +2"),
        Line("jobs bulk {dir}/jobs.ndjson", "job_exists", 1),
        Line("jobs bulk --replace {dir}/jobs.ndjson --json", '"status": 200'),
        Line("jobs bulk-delete {dir}/ids.ndjson", "deleted +2"),
        Line("jobs import crontab --url https://a.example/ {dir}/crontab", "created"),
    ],
    "schedules": [
        Line("next '0 9 * * *' -n 2", "09:00"),
        Line("next '0 9 * * *' --limit 1 --json", '"times"'),
        Line("lint '0 9 * * *'", "means"),
        Line("preview '0 9 * * *' --timezone Europe/Zurich -n 1", "SCHEDULED FOR"),
        Line("preview @daily 'every 1h' --calendar none", "Error: --calendar: ", 1),
        Line("preview '61 * * * *'", r"Error: EXPR\.\.\.: ", 1),
        Line("jobs add --id s --worker --schedule @daily", ""),
        Line("preview '0 9 * * *' --job s --json", '"difference"'),
        Line("explain s 2030-01-01T00:00:00Z", ": "),
        Line("explain s yesterday", "Error: ", 1),
    ],
    "groups": [
        Line("jobs add --id g --worker --schedule @daily --group acme", ""),
        Line("groups list", "acme +1"),
        Line("groups show acme", "active +1"),
        Line("groups pause acme", "paused +1"),
        Line("groups resume acme --misfire skip", "resumed +1"),
        Line("secrets create --group acme", "whsec_"),
        Line("secrets list --group acme --json", '"secrets"'),
        Line("secrets delete --group acme sec_0123456789abcdef", "Error: ", 1),
        Line("groups delete acme", "Error: nobody answers.*--yes", 1),
        Line("groups delete acme --yes", "deleted +1"),
        Line("groups show acme", "Error: ", 1),
    ],
    "executions": [
        Line("jobs add --id m --worker --queue mail --payload 1", "execution +m@"),
        Line("executions claim --queue none", "nothing to claim"),
        Line("executions claim --queue mail --wait-ms 9000 --json", '"lease"'),
        Line("executions heartbeat {id} --lease {lease}", "lease_ms"),
        Line("executions show {id}", "running"),
        Line("executions list m", "running"),
        Line("executions fail {id} --lease {lease} --error disk --final", "dead"),
        Line("executions complete {id} --lease {lease}", "Error: ", 1),
        Line("executions complete {id} --lease nonsense", "Error: --lease: ", 1),
        Line("dead list --job m", "final"),
        Line("dead show {id}", "disk"),
        Line("dead redrive {id}", "redriven +1"),
        Line("executions claim --queue mail --max 1 --wait-ms 9000 --json", '"lease"'),
        Line("executions complete {id} --lease {lease} --duration-ms 5", "succeeded"),
        Line("executions rerun {id}", "attempt"),
        Line("executions cancel {id} --note no", "cancelled"),
        Line("executions list --queue mail --all --json", r"\["),
        Line("jobs run m", ""),
        Line("executions claim --queue mail --wait-ms 9000 --json", '"lease"'),
        Line("executions complete-many {dir}/ends.json", "succeeded"),
        Line("executions complete-many {dir}/lost.json", "Error: 0.lease: ", 1),
        Line("dead discard m@1", "Error|m@1", 1),
        Line("dead discard --job m --yes --json", '"discarded": 0'),
        Line("dead redrive", "or --all", 2),
        Line("backfill m --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --dry-run", "", 1),
        Line("jobs add --id h --worker --queue mail --schedule '@hourly'", ""),
        Line("backfill h --from 2026-01-01T00:00:00Z --to 2026-01-01T05:00:00Z --dry-run", "times"),
        Line("backfill h --from 2026-01-01T00:00:00Z --to 2026-01-01T05:00:00Z", "running"),
        Line("backfill h --cancel", "cancell"),
        Line("backfill h --status --json", '"state"'),
    ],
    "limits": [
        Line("queues set mail --concurrency 2 --rate 5 --burst 3", "concurrency +2"),
        Line("queues set mail --rate 0", "Error: --rate: ", 1),
        Line("queues pause mail", "paused"),
        Line("queues list", "mail +paused +2 +5"),
        Line("queues resume mail", "mail"),
        Line("queues show mail", "burst +3"),
        Line("hosts set a.example --rate 2", "rate +2"),
        Line("hosts list", "a.example"),
        Line("hosts show a.example", "rate +2"),
        Line("hosts unset a.example", "lifted"),
        Line("calendars put office {dir}/office.json", "version +1"),
        Line("calendars import-ical office {dir}/days.ics --if-version 1", "2026-12-25"),
        Line("calendars import-ical office {dir}/days.ics --if-version 1", "--if-version", 1),
        Line("calendars list", "office"),
        Line("calendars show office --json", '"exclude"'),
        Line("calendars delete office", "deleted office"),
    ],
    "operations": [
        Line("top --once", ""),
        Line("top --json", '"stats"'),
        Line("doctor", "VERDICT"),
        Line("doctor --full --json", '"verdict"'),
        Line("shards", "SHARD"),
        Line("schedulers", "SCHEDULER"),
        Line("workers", "WORKER"),
        Line("server", "deployment"),
        Line("scripts export {dir}/lua", "scripts written"),
        Line("scripts export {dir}/lua --json", '"sha"'),
        Line("openapi", '"openapi"'),
        Line("schema", "{"),
        Line("version --json", '"version"'),
        Line("completion fish", "_WATERCLOCK_COMPLETE"),
    ],
    "files": [
        Line("import {dir}/crontab --dry-run --url https://a.example/", "new"),
        Line("import {dir}/crontab --url https://a.example/ --yes", "created"),
        Line("export {dir}/all.yaml --all", ""),
        Line("plan {dir}/all.yaml", "0 to add"),
        Line("apply {dir}/all.yaml --yes", "unchanged"),
        Line("plan {dir}/more.yaml", "1 to add", 2),
        Line("apply {dir}/more.yaml --yes", ""),
        Line("export - --json", '"jobs"'),
    ],
}
"""Theme → lines, one after the other on a deployment of their own. {dir} is where files are; {id}
and {lease} are those of the last claim."""

FILES = {
    "jobs.ndjson": '{"job_id": "n1", "target": {"type": "worker"}, "schedule_expr": "@daily"}\n'
    '{"job_id": "n2", "target": {"type": "worker"}, "schedule_expr": "@daily"}\n',
    "ids.ndjson": '"n1"\n{"job_id": "n2"}\n',
    "crontab": "0 5 * * * /bin/true\n",
    "lost.json": '[{"execution_id": "m@1", "lease": "x", "status": "succeeded"}]',
    "office.json": '{"weekdays": ["MO", "TU"], "name": "office", "version": 7}',
    "days.ics": "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    "DTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20261225\r\nSUMMARY:x\r\nEND:VEVENT\r\n"
    "END:VCALENDAR\r\n",
    "more.yaml": "waterclock: 1\njobs:\n  declared:\n    target: {type: worker}\n"
    "    schedule_expr: '@daily'\n",
}

READS = {
    "jobs list": "jobs",
    "jobs show kept": "jobs/kept",
    "jobs upcoming kept": "jobs/kept/upcoming",
    "jobs executions kept": "jobs/kept/executions",
    "executions list kept": "jobs/kept/executions",
    "executions list": "executions",
    "graph kept": "jobs/kept/graph",
    "explain kept 2030-01-01T00:00:00Z": "jobs/kept/explain?at=2030-01-01T00:00:00Z",
    "groups list": "groups",
    "groups show crew": "groups/crew",
    "calendars list": "calendars",
    "dead list": "dead",
    "queues list": "queues",
    "queues show http": "queues/http",
    "hosts list": "hosts",
    "secrets list --job kept": "jobs/kept/secrets",
}
"""Command → what the API says, which `--json` prints as it is."""


def leaves(command: click.Command, *path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from leaves(inner, *path, name)
    else:
        yield " ".join(path)


def test_every_command_is_tried() -> None:
    lines = [line.text for lines in TABLE.values() for line in lines]
    tried = {
        path for path in leaves(main) if any(f"{line} ".startswith(f"{path} ") for line in lines)
    }
    assert tried | TRIED_ELSEWHERE.keys() == {*leaves(main)}
    assert not tried & TRIED_ELSEWHERE.keys()


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("WATERCLOCK_ALLOW_NETWORKS", "127.0.0.0/8")
    with running_up(tmp_path) as up:
        monkeypatch.setenv("WATERCLOCK_API_URL", up.api())
        yield up.api()


def run(text: str) -> Result:
    return CliRunner().invoke(main, shlex.split(text))


@pytest.mark.parametrize("theme", [*TABLE])
def test_a_command_does_what_it_says(api: str, theme: str, tmp_path: Path) -> None:
    known = {"dir": str(tmp_path)}
    for line in TABLE[theme]:
        text = line.text
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", value)
        result = run(text)
        assert result.exit_code == line.code, f"{text}\n{result.output}"
        assert re.search(line.told, result.output), f"{text}\n{result.output}"
        assert "\x1b" not in result.output
        if line.code == 1 and "Error: " in line.told:
            assert result.stdout == "", text
        if "--json" in text:
            assert_json(result.stdout, text)
        if "executions claim" in text and "--json" in text:
            known |= claimed(json.loads(result.stdout), tmp_path)


def assert_json(text: str, line: str) -> None:
    """NDJSON from what is done line by line, one value from all else."""
    for part in text.splitlines() if "bulk" in line else [text]:
        json.loads(part)


def claimed(found: Any, folder: Path) -> dict[str, str]:
    one = found[0] if isinstance(found, list) else found
    end = {"execution_id": one["execution_id"], "lease": one["lease"], "status": "succeeded"}
    (folder / "ends.json").write_text(json.dumps([end]))
    return {"id": one["execution_id"], "lease": one["lease"]}


def test_json_is_what_the_api_says(api: str) -> None:
    run("jobs add --id kept --worker --schedule '0 0 1 1 *' --group crew --payload '\"é\"'")
    run("jobs run kept")
    run("secrets create --job kept")
    for text, path in READS.items():
        result = run(f"{text} --json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout) == ask(f"{api}/v1/{path}"), text
