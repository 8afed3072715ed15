"""The load harness by its real command, with a hundred jobs: only the names of figures count."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from measured import IN_FULL_RUNS, PAGE, rows_of, stands_for

from bench.__main__ import main
from bench.report import BEGIN, END, RESULTS
from bench.result import Result, read_results
from bench.running import run_scenario
from bench.scenarios import NAMES
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from engine.embedded import EmbeddedServer
from engine.errors import Unusable

ROOT = Path(__file__).parents[2]
AT_ONCE = 3
"""Runs side by side: most of their time they wait."""
SCENARIOS = [name for name in NAMES if name not in ("failover", "peers")]
"""Those two take long, and fail where the machine is too busy: kept results are held."""


async def look_around(stage: Stage) -> Metrics:
    """A scenario that leaves a deployment behind."""
    stage.notes["is_own_server"] = stage.server is not None
    async with stage.store(batch=7) as store:
        return {"keys": await store.client.dbsize()}


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command, to its end."""
    command = [sys.executable, "-m", "bench", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Result]]]:
    """The results to come of the scenarios that were asked for."""
    folder = tmp_path_factory.mktemp("results")

    def run(name: str) -> Result:
        out = folder / f"{name}.json"
        done = bench(name, "--quick", "--jobs", "100", "--json", str(out))
        assert not done.returncode, done.stderr
        assert json.loads(done.stdout) == json.loads(out.read_text("utf-8"))
        return read_results(out)[name]

    asked = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and "runs" in item.fixturenames
    ]
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {name: pool.submit(run, name) for name in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_returns_what_its_table_says(name: str, runs: dict[str, Future[Result]]) -> None:
    result = runs[name].result()
    assert (result["scenario"], result["jobs"], result["is_quick"]) == (name, 100, True)
    check_names(result, but=IN_FULL_RUNS)


def test_results_that_are_kept_have_the_metrics_that_the_tables_say() -> None:
    for result in read_results(RESULTS).values() if any(RESULTS.glob("*.json")) else ():
        check_names(result, but=rows_of(result["scenario"]) if result["is_quick"] else ())


def check_names(result: Result, but: Collection[str]) -> None:
    """Hold a result against its table, of which the rows `but` need not be there."""
    rows, metrics = rows_of(result["scenario"]), result["metrics"]
    assert [m for m in metrics if not any(stands_for(row, m) for row in rows)] == []
    missing = [row for row in rows if not any(stands_for(row, m) for m in metrics)]
    assert {*missing} <= {*but}


def test_a_result_says_under_which_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.running.load", lambda _: Scenario(look_around, 7, 1))
    result = run_scenario("spike")
    environment = result["environment"]
    assert result["notes"] == {"is_own_server": True}
    assert environment["payload_bytes"] == len(PAYLOAD) == 100
    assert environment["settings"] == {"max_ready": 10_700, "batch": 7}
    assert environment["server"].startswith(("valkey ", "redis "))
    assert environment["server_settings"]["appendonly"] == "no"
    assert environment["server_cpu_s"] >= 0
    assert environment["harness_cpu_s"] > 0
    assert {*environment} == {
        "at",
        "duration_s",
        "waterclock",
        "commit",
        "is_dirty",
        "server",
        "allocator",
        "server_settings",
        "cpus",
        "cpu_model",
        "memory_mb",
        "system",
        "python",
        "event_loop",
        "redis_py",
        "hiredis",
        "payload_bytes",
        "settings",
        "load_before",
        "server_cpu_s",
        "harness_cpu_s",
    }


def test_every_scenario_has_a_file_and_a_section() -> None:
    files = {path.stem for path in (ROOT / "bench/scenarios").glob("*.py")} - {"__init__"}
    assert {*NAMES} == files
    assert set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == files


# On somebody's server


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client


def test_a_server_that_is_not_empty_is_refused_and_keeps_what_it_has(
    server: EmbeddedServer, client: redis.Redis
) -> None:
    client.mset({"mine": 1, "yours": 2})
    done = bench("plans", "--quick", "--jobs", "100", "--url", server.url)
    assert done.returncode == 1
    assert "is not empty, it has 2 keys" in done.stderr
    assert done.stdout == ""
    assert client.mget("mine", "yours") == [b"1", b"2"]


async def fail(stage: Stage) -> Metrics:
    await look_around(stage)
    raise RuntimeError("in the midst of it")


def test_a_server_of_somebody_is_used_and_left_empty(
    server: EmbeddedServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.running.load", lambda _: Scenario(look_around, 7, 1))
    result = run_scenario("spike", url=server.url)
    assert result["metrics"]["keys"] > 0
    assert result["notes"] == {"is_own_server": False}
    assert (result["scenario"], result["jobs"]) == ("spike", 7)
    assert client.dbsize() == 0


def test_a_server_of_somebody_is_left_empty_by_a_failure(
    server: EmbeddedServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.running.load", lambda _: Scenario(fail, 1, 1))
    with pytest.raises(RuntimeError, match="in the midst"):
        run_scenario("spike", url=server.url)
    assert client.dbsize() == 0


def test_a_server_that_evicts_is_refused(server: EmbeddedServer, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Unusable, match="maxmemory-policy is allkeys-lru"):
            run_scenario("plans", url=server.url)
    finally:
        client.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_does_not_answer_is_told_without_its_password() -> None:
    with pytest.raises(Unusable, match="no server answers at the given URL") as caught:
        run_scenario("plans", url="redis://:secret@127.0.0.1:1/0")
    assert "secret" not in str(caught.value)


# All of them


def test_all_are_run_and_reported_and_what_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.scenarios.NAMES", ("unknown", "plans"))
    page = tmp_path / "README.md"
    page.write_text(f"{BEGIN}\n{END}\n", "utf-8")
    words = ["--quick", "--results", str(tmp_path / "results"), "--readme", str(page)]
    done = CliRunner().invoke(main, ["all", *words])
    assert done.exit_code == 1
    assert "failed: unknown" in done.stderr
    assert read_results(tmp_path / "results")["plans"]["is_quick"]
    assert "Measured in a small run" in page.read_text("utf-8")
