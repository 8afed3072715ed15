"""What tests of consumers in other languages begin with: a server on a port, the exported scripts,
and consumers that run as processes of their own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from conftest import open_real
from invariants import check_invariants

from api.app import create_app
from engine.cli import main
from engine.embedded import EmbeddedServer, find_server
from engine.store import Store

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HERE = Path(__file__).parent
QUEUE = "mail"
INSTALL_S = 300
ANSWER_S = 30


@pytest.fixture(scope="session")
def port_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that listens on a port as well: not every client knows Unix sockets."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("port-server")
    binary = find_server()
    with EmbeddedServer(folder, binary=binary, port=port, appendonly=False) as server:
        server.url = f"redis://127.0.0.1:{port}/0"
        yield server


@pytest.fixture
async def port_store(port_server: EmbeddedServer) -> AsyncIterator[Store]:
    async with open_real(port_server) as store:
        yield store
        await check_invariants(store)


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `waterclock scripts export` has filled."""
    folder = tmp_path_factory.mktemp("scripts")
    answer = CliRunner().invoke(main, ["scripts", "export", str(folder)])
    assert answer.exit_code == 0, answer.output
    return folder


@pytest.fixture(scope="session")
def node_example(pytestconfig: pytest.Config) -> Path:
    """The example in Node with its one dependency, in a folder of pytest's cache: what npm installs
    has no place in the checkout."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed; the consumer in Node needs Node 20 or newer")
    cache = pytestconfig.cache
    assert cache is not None
    source = EXAMPLES / "node"
    folder = cache.mkdir("node-example")
    lock = (source / "package-lock.json").read_bytes()
    is_fresh = (folder / "installed").is_file() and (folder / "installed").read_bytes() == lock
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    if not is_fresh:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}{done.stderr}"
        (folder / "installed").write_bytes(lock)
    return folder


@asynccontextmanager
async def calling(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API over a store."""
    app = create_app(store.config, store)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


class Driver:
    """A process that drives consumers: a JSON line in, a JSON line out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the answer; what the process said instead, if it failed, is the error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            _, told = self._process.communicate(timeout=ANSWER_S)
            raise AssertionError(told)
        return json.loads(line)


@contextmanager
def driver(*command: str | Path) -> Iterator[Driver]:
    """Start a driver; it ends with its stdin, and says nothing on stderr."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Driver(process)
            _, told = process.communicate(timeout=ANSWER_S)
            assert (process.returncode, told) == (0, "")
        finally:
            process.kill()


@pytest.fixture(scope="session")
def python_driver(port_server: EmbeddedServer, scripts: Path) -> Iterator[Driver]:
    program = (sys.executable, HERE / "driver.py", EXAMPLES / "python")
    with driver(*program, port_server.url, QUEUE, scripts) as running:
        yield running


@pytest.fixture(scope="session")
def node_driver(node_example: Path, port_server: EmbeddedServer, scripts: Path) -> Iterator[Driver]:
    program = ("node", HERE / "driver.mjs", node_example)
    with driver(*program, port_server.url, QUEUE, scripts) as running:
        yield running
