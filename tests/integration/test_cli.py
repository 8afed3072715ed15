"""`waterclock` as a process: it comes up, runs jobs, and goes down in order, by any signal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from fleet import LOOPBACK
from waiting import eventually

from engine.embedded import EmbeddedServer

ROOT = Path(__file__).parents[2]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("WATERCLOCK_")}
ENV["WATERCLOCK_ALLOW_NETWORKS"] = LOOPBACK
_open = build_opener(ProxyHandler({})).open


class Process:
    """One `waterclock` process; its output goes to a file that can be read while it runs."""

    def __init__(self, output: Path, *args: str) -> None:
        self.output = output
        with output.open("wb") as file:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "engine", *args],
                cwd=ROOT,
                env=ENV,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def text(self) -> str:
        return self.output.read_text()

    def find(self, pattern: str) -> str:
        """Return the first group of a pattern once the output has it."""

        def look() -> re.Match[str] | None:
            assert self.popen.poll() is None or re.search(pattern, self.text()), self.text()
            return re.search(pattern, self.text())

        return eventually(look, pattern).group(1)

    def api(self) -> str:
        """Return the API's address once it is printed."""
        return self.find(r"API .*?(http://127\.0\.0\.1:[1-9]\d*)\s")

    def end(self, number: int) -> int:
        """Send a signal; return the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(20)


@contextmanager
def running(output: Path, *args: str) -> Iterator[Process]:
    process = Process(output, *args)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.wait()


@contextmanager
def running_up(tmp_path: Path, *args: str) -> Iterator[Process]:
    """`waterclock up` on a data directory under `tmp_path` and a free port."""
    data = ["--data-dir", str(tmp_path / "data")]
    with running(tmp_path / "up.log", "up", "--port", "0", *data, *args) as process:
        yield process


def ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with _open(Request(url, data, {"Content-Type": "application/json"}), timeout=5) as answer:
        return json.load(answer)


def cli(*args: str) -> str:
    """Return what a command of the command line prints."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", *args],
        cwd=ROOT,
        env=ENV,
        stdout=subprocess.PIPE,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout


def server_pid(tmp_path: Path) -> int:
    """Return the embedded server's process id, 0 while it is on its way up."""
    return int((tmp_path / "data" / "lock").read_text().partition(" ")[0] or 0)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def add(api: str, *args: str) -> None:
    """Register job `a`, whose target is near and good: a claim from a queue in which nothing is."""
    target = ["--url", f"{api}/internal/executions/claim", "--payload", '{"worker":"w"}']
    cli("jobs", "add", "--api", api, "--id", "a", *target, *args)


def succeeded(api: str, count: int) -> list[str]:
    """Return when the executions of job `a` were due, newest first, once so many have succeeded."""

    def look() -> list[str] | None:
        found = ask(f"{api}/v1/jobs/a/executions")
        done = [e["scheduled_for"] for e in found if e["status"] == "succeeded"]
        return done if len(done) == count else None

    return eventually(look, f"{count} executions")


def ready(api: str) -> str:
    """Return the API's address once it is ready."""

    def look() -> bool:
        try:
            return bool(ask(f"{api}/readyz")["status"] == "ready")
        except OSError:
            return False

    eventually(look, "the API is ready")
    return api


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_runs_jobs_and_a_signal_stops_all_of_it(tmp_path: Path, number: int) -> None:
    with running_up(tmp_path) as up:
        api = up.api()
        assert ask(f"{api}/readyz")["status"] == "ready"
        pid = server_pid(tmp_path)
        add(api, "--schedule", "every 1s")
        second, first = succeeded(api, 2)
        assert first[:19] < second[:19]
        assert first[19:] == second[19:]
        assert up.end(number) == 0
        assert not is_alive(pid)
    assert "Traceback" not in up.text()


def test_what_was_registered_goes_on_after_a_restart(tmp_path: Path) -> None:
    at = "2099-01-01T00:00:00.000Z"
    with running_up(tmp_path) as up:
        cli("jobs", "add", "--api", up.api(), "--id", "a", "--schedule", at, "--worker")
        assert up.end(signal.SIGTERM) == 0
    with running_up(tmp_path) as up:
        shown = json.loads(cli("jobs", "show", "a", "--json", "--api", up.api()))
        assert shown["next_run_at"] == at


def test_the_demo_runs_twice_on_one_data_directory(tmp_path: Path) -> None:
    for _ in range(2):
        with running_up(tmp_path, "--demo") as up:
            cli("jobs", "run", "demo-once", "--api", up.api())
            up.find(r"(demo-once) +for .* attempt 1  succeeded\n")
            assert up.end(signal.SIGINT) == 0
        assert " failed " not in up.text()


@pytest.mark.faults
def test_the_server_is_started_again_when_it_dies_and_keeps_the_jobs(tmp_path: Path) -> None:
    with running_up(tmp_path) as up:
        add(api := up.api(), "--schedule", "2099-01-01T00:00:00Z")
        pid = server_pid(tmp_path)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: server_pid(tmp_path) not in (0, pid), "another server")
        cli("jobs", "run", "a", "--api", ready(api))
        assert succeeded(api, 1)
        assert up.end(signal.SIGTERM) == 0


@pytest.mark.faults
def test_a_killed_process_takes_its_server_along(tmp_path: Path) -> None:
    with running_up(tmp_path) as up:
        up.api()
        pid = server_pid(tmp_path)
        assert is_alive(pid)
        up.end(signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "the server is gone")


def test_a_taken_port_is_one_line_and_leaves_no_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running_up(tmp_path, "--port", port) as up:
            assert up.popen.wait(20) == 1
    assert re.fullmatch(rf"Error: port {port} on 127\.0\.0\.1 is in use.*\n", up.text())
    assert not is_alive(server_pid(tmp_path))


def test_a_data_directory_in_use_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data", appendonly=False), running_up(tmp_path) as up:
        assert up.popen.wait(20) == 1
        assert up.text().startswith("Error: ")
        assert "--data-dir" in up.text()
        assert "Traceback" not in up.text()


def test_consumers_reach_the_embedded_server_on_the_port_that_was_given(tmp_path: Path) -> None:
    port = free_port()
    with running_up(tmp_path, "--server-port", str(port)) as up:
        up.api()
        with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
            link.sendall(b"PING\r\n")
            assert link.recv(100) == b"+PONG\r\n"
        assert up.end(signal.SIGTERM) == 0


def test_a_fleet_may_start_before_its_server_and_runs_jobs_once_it_is_there(
    tmp_path: Path,
) -> None:
    server = EmbeddedServer(tmp_path / "data", appendonly=False)
    url = ["--redis-url", server.url]
    with (
        running(tmp_path / "scheduler.log", "scheduler", *url) as scheduler,
        running(tmp_path / "worker.log", "worker", *url) as worker,
        running(tmp_path / "api.log", "api", "--port", "0", *url) as api,
    ):
        for process in (scheduler, worker):
            process.find("(no server yet)")
        with server:
            add(ready(api.api()))
            assert succeeded(api.api(), 1)
            assert [p.end(signal.SIGTERM) for p in (api, worker, scheduler)] == [0, 0, 0]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
