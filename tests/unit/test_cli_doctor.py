"""`waterclock doctor`: over the API or without it; exit code 1 where something fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import open_real

from engine.cli import main, options
from engine.embedded import EmbeddedServer
from engine.plan import ZONE_DATABASE
from engine.store.facts import is_deployed

WELL = {"check": "memory", "verdict": "ok", "found": "5 MiB", "advice": None}
WARNING = {"check": "replication", "verdict": "warn", "found": "late", "advice": "see its log"}
FAILURE = {"check": "persistence", "verdict": "fail", "found": "none", "advice": "appendonly yes"}
INDEX = {"check": "index", "verdict": "ok", "found": "a sample", "advice": None}


class FakeApi:
    """Has findings, and a fault in shard 1."""

    def __init__(self, *findings: dict[str, Any], zones: str = ZONE_DATABASE) -> None:
        self.findings = [*findings, INDEX]
        self.zones = zones

    def get(self, *path: str) -> Any:
        if path == ("doctor",):
            return {"is_well": True, "findings": self.findings}
        if path == ("server",):
            return {"deployment": {"timezones": self.zones, "shards": 2}}
        faults = {"is lost": 1} if path[-1] == "1" else {}
        examples = ["a: is lost"] if faults else []
        return {"jobs": 5, "members": 4, "faults": faults, "examples": examples}


def run(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *args: str) -> Result:
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return CliRunner().invoke(main, ["doctor", *args])


def test_findings_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, FakeApi(WELL, WARNING))
    assert result.exit_code == 0
    head, *lines = [line.split() for line in result.stdout.splitlines()]
    assert head == ["VERDICT", "CHECK", "FOUND", "WHAT", "TO", "DO"]
    assert lines[0] == ["ok", "memory", "5", "MiB", "–"]
    assert lines[1] == ["warn", "replication", "late", "see", "its", "log"]


def test_a_failure_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, FakeApi(WELL, FAILURE), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == [WELL, FAILURE, INDEX]


def test_other_time_zones_here_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, FakeApi(WELL, zones="1999a"), "--json")
    assert result.exit_code == 0
    last = json.loads(result.stdout)[-1]
    assert (last["check"], last["verdict"]) == ("time zones here", "warn")
    assert "1999a" in last["found"]


def test_full_asks_for_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, FakeApi(WELL), "--full", "--json")
    assert result.exit_code == 1
    index = json.loads(result.stdout)[-1]
    assert index["verdict"] == "fail"
    assert index["found"].startswith("1 × is lost; 10 jobs and 8 members")
    assert "a: is lost" in index["found"]


def directly(url: str, *args: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(main, ["doctor", "--redis-url", url, "--json", *args])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("args", [[], ["--full"]])
def test_without_the_api_the_server_itself_is_asked(
    server: EmbeddedServer, args: list[str]
) -> None:
    asyncio.run(_empty(server, is_deployed=True))
    code, found = directly(server.url, *args)
    assert code == 1  # nothing is kept on disk, and nobody fires
    verdicts = {one["check"]: one["verdict"] for one in found}
    assert verdicts["persistence"] == "fail"
    assert verdicts["shards with a scheduler"] == "fail"
    assert verdicts["eviction"] == "ok"
    assert verdicts["index"] == "ok"


def test_where_nothing_is_deployed_a_look_deploys_nothing(server: EmbeddedServer) -> None:
    asyncio.run(_empty(server, is_deployed=False))
    code, [found] = directly(server.url)
    assert code == 1
    assert "no deployment" in found["found"]
    assert asyncio.run(is_deployed(server.url)) is False


async def _empty(server: EmbeddedServer, *, is_deployed: bool) -> None:
    async with open_real(server) as store:
        if not is_deployed:
            await store.client.flushall()


def test_a_server_that_is_away_is_a_finding() -> None:
    code, [found] = directly("unix:///nowhere/at/all")
    assert code == 1
    assert (found["check"], found["verdict"]) == ("server", "fail")
    assert "--redis-url" in found["advice"]


def test_what_is_no_url_is_a_finding_without_its_password() -> None:
    code, [found] = directly("http://:s3cret@nowhere")
    assert code == 1
    assert "s3cret" not in json.dumps(found)
