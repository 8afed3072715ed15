"""`waterclock deployment …`: a move by the command line, and what it refuses."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from carrying import busy, content
from click.testing import CliRunner, Result
from seeding import at_once, take

from engine.cli import main
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.store import Store
from engine.store.freezing import freeze
from engine.store.jobs import create_jobs
from engine.store.phase import Phase, read_phase
from engine.store.transfer import move

pytestmark = pytest.mark.usefixtures("_at_once")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at work here, so nobody needs time to notice."""
    monkeypatch.setattr(move, "SETTLE_MS", 0)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The data directory of an embedded server that does not run, with some of everything."""
    with EmbeddedServer(tmp_path / "old") as server:
        _with_store(server.url, busy)
    return tmp_path / "old"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "new", appendonly=False) as server:
        yield server


def _with_store(url: str, work: Callable[[Store], Awaitable[Any]], shards: int = 4) -> Any:
    async def run() -> Any:
        config = Config(redis_url=url, shards=shards)
        async with await Store.open(config, even_frozen=True) as store:
            return await work(store)

    return asyncio.run(run())


def _run(*words: object) -> Result:
    return CliRunner().invoke(main, ["deployment", *map(str, words)])


async def _phase(store: Store) -> Phase | None:
    return await read_phase(store.client)


def test_a_data_directory_goes_to_a_server_through_a_file(
    data_dir: Path, there: EmbeddedServer, tmp_path: Path
) -> None:
    file = tmp_path / "export.jsonl"
    done = _run("export", file, "--data-dir", data_dir, "--freeze", "--drain", 0)
    assert done.exit_code == 0, done.output
    assert "did not end in time: they are delivered again" in done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("*.part")] == []
    done = _run("import", file, "--redis-url", there.url, "--shards", 5)
    assert done.exit_code == 0, done.output
    assert "job records" in done.stdout
    with EmbeddedServer(data_dir) as old:
        before = _with_store(old.url, content)
        assert _with_store(old.url, _phase) is Phase.FROZEN
    assert _with_store(there.url, content, 5) == before
    assert _with_store(there.url, _phase) is None


def test_a_directory_moves_to_a_server_in_one_command_and_back(
    data_dir: Path, there: EmbeddedServer, tmp_path: Path
) -> None:
    with EmbeddedServer(data_dir) as old:  # it runs already: the command takes it as it is
        done = _run("move", "--from", data_dir, "--to", there.url, "--yes", "--drain", 0)
        assert done.exit_code == 0, done.output
        before = _with_store(old.url, content)
        assert old.alive()
    assert _with_store(there.url, content) == before
    home = tmp_path / "home"
    done = _run("move", "--from", there.url, "--to", home, "--yes", "--drain", 0)
    assert done.exit_code == 0, done.output
    with EmbeddedServer(home) as new:
        assert _with_store(new.url, content) == before


def test_a_move_that_is_refused_leaves_the_old_deployment_at_work(
    data_dir: Path, there: EmbeddedServer
) -> None:
    async def use(store: Store) -> None:
        await create_jobs(store, [at_once("job-0")])

    _with_store(there.url, use)
    done = _run("move", "--from", data_dir, "--to", there.url, "--yes", "--drain", 0)
    assert done.exit_code == 1
    assert "the target holds a deployment already" in done.stderr
    with EmbeddedServer(data_dir) as old:
        assert _with_store(old.url, _phase) is None


def test_thawing_lets_a_deployment_go_on(there: EmbeddedServer, tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        await create_jobs(store, [at_once("job-0")])

    _with_store(there.url, use)
    url = ("--redis-url", there.url)
    assert _run("export", tmp_path / "x", *url, "--freeze").exit_code == 0
    assert _with_store(there.url, take) == []
    assert _run("thaw", *url).exit_code == 1  # nobody answers the question
    assert _with_store(there.url, _phase) is Phase.FROZEN
    assert _run("thaw", *url, "--yes").exit_code == 0
    assert _with_store(there.url, _phase) is None
    assert len(_with_store(there.url, take)) == 1
    done = _run("thaw", *url, "--yes")
    assert (done.exit_code, "is not stopped" in done.stderr) == (1, True)


def test_an_import_that_only_has_to_open_says_so(there: EmbeddedServer, tmp_path: Path) -> None:
    async def stop(store: Store) -> None:
        await freeze(store, Phase.OPENING)

    _with_store(there.url, stop)
    (tmp_path / "x").touch()
    done = _run("import", tmp_path / "x", "--redis-url", there.url)
    assert (done.exit_code, "open now" in done.stderr) == (0, True)
    assert _with_store(there.url, _phase) is None


def test_an_import_makes_the_data_directory_that_it_needs(
    there: EmbeddedServer, tmp_path: Path
) -> None:
    _with_store(there.url, busy)
    before = _with_store(there.url, content)
    file = tmp_path / "x"
    url = ("--redis-url", there.url)
    assert _run("export", file, *url, "--freeze", "--drain", 0).exit_code == 0
    assert _run("import", file, "--data-dir", tmp_path / "fresh").exit_code == 0
    with EmbeddedServer(tmp_path / "fresh") as server:
        assert _with_store(server.url, content) == before


def test_an_export_stops_nothing_that_it_was_not_told_to(there: EmbeddedServer) -> None:
    _with_store(there.url, _phase)
    done = _run("export", "--redis-url", there.url)
    assert (done.exit_code, "say so with --freeze" in done.stderr) == (2, True)
    assert _with_store(there.url, _phase) is None
    assert _run("export", "--redis-url", there.url, "--freeze").exit_code == 0
    again = _run("export", "--redis-url", there.url)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[0].startswith('{"kind":"deployment"')


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("export", "--data-dir", "nowhere", "--freeze"), 1, "is no data directory"),
        (("export", "--redis-url", "URL", "--freeze"), 1, "there is no deployment on the server"),
        (("export", "/no/such/x", "--redis-url", "URL2", "--freeze"), 1, "cannot write to"),
        (("export", "--redis-url", "URL", "--data-dir", "."), 2, "exclude each other"),
        (("import", "/no/such/x", "--redis-url", "URL"), 2, "does not exist"),
        (("import", "-", "--redis-url", "URL2", "--shards", "9"), 1, "into 4 shards already"),
        (("import", "-", "--redis-url", "unix:///no/such/socket"), 1, "does not answer"),
        (("move", "--from", "URL2", "--to", "URL2", "--yes"), 2, "are the same server"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    there: EmbeddedServer, words: tuple[str, ...], code: int, said: str
) -> None:
    if "URL2" in words:
        _with_store(there.url, _phase)
    given = [there.url if word.startswith("URL") else word for word in words]
    done = _run(*given)
    assert (done.exit_code, said in done.stderr) == (code, True), done.output
    if "URL2" in words:
        assert _with_store(there.url, _phase) is None
