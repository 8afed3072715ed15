"""The examples as programs: each takes what waits in its queue, and takes its leave when it is told
to stop. Those in Java and sh run where the machine has what they need."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import driving
import httpx
import pytest

from engine.plan import parse_instant
from engine.store import Store
from engine.store.server import time_ms

port_server = driving.port_server
port_store = driving.port_store
scripts = driving.scripts
node_example = driving.node_example

STOPPED = (0, 128 + signal.SIGTERM)
PRIORITIES = ["low", "normal", "high"]


def command_of(language: str, request: pytest.FixtureRequest) -> list[str]:
    """Return how an example is started, or skip where the machine cannot."""
    match language:
        case "python":
            return [sys.executable, str(driving.EXAMPLES / "python/consumer.py")]
        case "node":
            return ["node", str(request.getfixturevalue("node_example") / "consumer.mjs")]
        case "java":
            if not shutil.which("javac"):
                pytest.skip("the consumer in Java needs a JDK, 17 or newer")
            return ["java", str(driving.EXAMPLES / "java/Consumer.java")]
        case _:
            if not shutil.which("redis-cli"):
                pytest.skip("the consumer in sh needs redis-cli")
            return ["sh", str(driving.EXAMPLES / "shell/consumer.sh")]


def run_until(command: list[str], ending: str, count: int) -> int:
    """Start a program, tell it to stop once it has said so many lines with this ending, and return
    its exit status. One that hangs ends too."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = threading.Timer(driving.ANSWER_S, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None
            while count:
                line = process.stdout.readline()
                assert line, f"{count} lines are missing"
                count -= line.rstrip().endswith(ending)
            process.send_signal(signal.SIGTERM)
            process.communicate()
            return process.returncode
        finally:
            deadline.cancel()
            process.kill()


async def create(client: httpx.AsyncClient, job_id: str, **more: object) -> None:
    body = {"job_id": job_id, "queue": driving.QUEUE, "target": {"type": "worker"}, **more}
    assert (await client.post("/v1/jobs", json=body)).status_code == 201


async def status_of(client: httpx.AsyncClient, job_id: str) -> str:
    [execution] = (await client.get(f"/v1/jobs/{job_id}/executions")).json()
    return str(execution["status"])


@pytest.mark.parametrize("language", ["python", "node", "java", "sh"])
async def test_an_example_does_what_waits_and_leaves(
    language: str, port_store: Store, scripts: Path, request: pytest.FixtureRequest
) -> None:
    command = command_of(language, request)
    async with driving.calling(port_store) as client:
        for priority in PRIORITIES:
            await create(client, priority, priority=priority, payload={"to": "“me”"})
        await create(client, "late", expires_after_ms=1)
        arguments = [port_store.config.redis_url, driving.QUEUE, str(scripts)]
        command += [*arguments, *(["cat"] if language == "sh" else [])]
        assert await asyncio.to_thread(run_until, command, ": done", 4) in STOPPED
        states = [await status_of(client, job_id) for job_id in (*PRIORITIES, "late")]
    assert states == ["succeeded"] * 3 + ["skipped"]
    keys = [key async for key in port_store.client.scan_iter("wc:*:ready:*")]
    assert keys
    for key in keys:
        assert await port_store.client.xinfo_consumers(key, "workers") == []


@pytest.mark.parametrize(
    ("language", "error"),
    [
        ("java", 'java.lang.Exception: no “such”\n"mailbox"'),
        ("sh", "exit status 3"),
    ],
)
async def test_an_example_fails_an_execution_as_the_retry_policy_says(
    language: str,
    error: str,
    port_store: Store,
    scripts: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """For those that do not run the wire vectors."""
    command = command_of(language, request)
    if language == "java":
        sources = [command[1], str(driving.HERE / "Failing.java")]
        compile_java = ["javac", "-d", str(tmp_path), *sources]
        await asyncio.to_thread(subprocess.run, compile_java, check=True)
        command = ["java", "-cp", str(tmp_path), "Failing"]
    arguments = [port_store.config.redis_url, driving.QUEUE, str(scripts), "exit 3"]
    retry = {"max_attempts": 2, "backoff": "linear", "base_ms": 60_000, "jitter": "none"}
    async with driving.calling(port_store) as client:
        await create(client, "again", retry=retry)
        await create(client, "never", retry={**retry, "max_attempts": 1})
        await create(client, "late", retry={**retry, "deadline_ms": 60_000})
        await asyncio.to_thread(run_until, [*command, *arguments], ": done", 3)
        [execution] = (await client.get("/v1/jobs/again/executions")).json()
        states = [await status_of(client, job_id) for job_id in ("again", "never", "late")]
    assert states == ["retrying", "dead", "dead"]
    assert execution["attempts"][0]["error"] == error
    wait_ms = parse_instant(execution["retry_at"]) - await time_ms(port_store.client)
    assert 0 < wait_ms <= 60_000
