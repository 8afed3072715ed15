"""`waterclock apply` is killed in the middle, and applied again: all is as declared, and once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import ENV, ROOT, ask, cli, running, running_up
from waiting import eventually

pytestmark = pytest.mark.faults
KEPT, ADDED, GONE = 600, 100, 100


def declare(path: Path, payload: int, names: list[str]) -> str:
    """Write a file of jobs; return its path."""
    jobs: dict[str, Any] = {name: {"payload": payload} for name in names}
    content = {
        "waterclock": 1,
        "owner": "me",
        "defaults": {"target": {"type": "worker"}, "schedule_expr": "@yearly"},
        "jobs": jobs,
    }
    path.write_text(json.dumps(content))
    return str(path)


def stand(api: str) -> dict[str, dict[str, Any]]:
    return {job["job_id"]: job for job in ask(f"{api}/v1/jobs?limit=1000")["jobs"]}


def code_of_plan(api: str, file: str) -> int:
    args = [sys.executable, "-m", "engine", "plan", file, "--api", api]
    return subprocess.run(args, cwd=ROOT, env=ENV, stdout=subprocess.DEVNULL, timeout=60).returncode


def test_an_apply_that_is_killed_is_applied_again(tmp_path: Path) -> None:
    kept = [f"kept-{n}" for n in range(KEPT)]
    before = declare(tmp_path / "old.json", 1, [*kept, *(f"gone-{n}" for n in range(GONE))])
    after = declare(tmp_path / "new.json", 2, [*kept, *(f"added-{n}" for n in range(ADDED))])
    with running_up(tmp_path) as up:
        api = up.api()
        cli("apply", before, "--yes", "--api", api)
        assert len(stand(api)) == KEPT + GONE

        def changed() -> int:
            return sum(job["version"] == 2 for job in stand(api).values())

        with running(tmp_path / "log", "apply", after, "--yes", "--api", api) as applying:
            eventually(changed, "some jobs are changed")
            assert applying.end(signal.SIGKILL) == -signal.SIGKILL
        assert 0 < changed() < KEPT
        assert code_of_plan(api, after) == 2

        cli("apply", after, "--yes", "--api", api)
        assert code_of_plan(api, after) == 0
        found = stand(api)
        assert len(found) == KEPT + ADDED
        assert {job["payload"] for job in found.values()} == {2}
        # None was written twice.
        assert {job["version"] for name, job in found.items() if name in kept} == {2}
        assert {job["version"] for name, job in found.items() if name not in kept} == {1}
        up.end(signal.SIGTERM)
