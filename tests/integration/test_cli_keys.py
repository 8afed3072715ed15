"""`waterclock keys` against a real server, and the API that asks for what it makes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_cli import ask, running_up

from engine.cli import main
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.errors import Unusable
from engine.store import Store


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Store) -> None:
    """Nothing is set, and the directory has no server; the store has emptied the other one."""
    for name in ("REDIS_URL", "API_KEY", "API_KEY_FILE", "DATA_DIR", "AUTH"):
        monkeypatch.delenv(f"WATERCLOCK_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def keys(*args: str, code: int = 0) -> Result:
    # In a thread of its own: the fixtures' event loop runs in this one.
    result = CliRunner().invoke(main, ["keys", *args])
    assert result.exit_code == code, result.output
    return result


async def run_keys(*args: str, code: int = 0) -> Result:
    return await asyncio.to_thread(keys, *args, code=code)


async def made(*args: str) -> dict[str, Any]:
    result = await run_keys(*args, "--json")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


async def test_a_key_is_made_listed_rotated_and_revoked(server: EmbeddedServer) -> None:
    where = ("--redis-url", server.url)
    args = ("--scope", "write", "--group", "a", "--expires-in", "90d", "--rate", "5")
    first = await made("create", *args, *where)
    assert (first["scopes"], first["groups"], first["rate"]) == (["write"], ["a"], 5)
    second = await made("rotate", first["key_id"], "--overlap", "0", *where)
    assert second["rotated_from"] == first["key_id"]
    assert second["key"] != first["key"]
    listed = await run_keys("list", *where)
    for key in (first, second):
        assert key["key_id"] in listed.output
        assert key["key"][-43:] not in listed.output
    assert "revoked" in (await run_keys("revoke", second["key_id"], *where)).output
    left = json.loads((await run_keys("list", "--json", *where)).stdout)
    assert [key["key_id"] for key in left["keys"]] == [first["key_id"]]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("create", "--scope", "admin", "--group", "a"), "leave groups out"),
        (("create", "--scope", "read", "--max-jobs", "5"), "max_jobs counts the jobs of groups"),
        (("create", "--scope", "read", "--expires-in", "soon"), "not an interval"),
        (("revoke", "0" * 16), "there is no key of this id"),
        (("rotate", "0" * 16), "there is no key of this id"),
    ],
)
async def test_what_cannot_be_is_refused_in_one_line(
    server: EmbeddedServer, args: tuple[str, ...], reason: str
) -> None:
    result = await run_keys(*args, "--redis-url", server.url, code=1)
    [line] = result.output.splitlines()
    assert reason in line


async def test_a_data_directory_and_a_url_exclude_each_other(server: EmbeddedServer) -> None:
    await run_keys("list", "--data-dir", "d", "--redis-url", server.url, code=2)


async def test_where_no_server_answers_it_says_what_to_do() -> None:
    result = await run_keys("list", "--redis-url", "redis://127.0.0.1:1", code=1)
    assert "--data-dir" in result.output


async def test_an_api_for_others_wants_a_key_to_be_made_first(
    store: Store, server: EmbeddedServer
) -> None:
    from api.server import serve

    config = Config(redis_url=server.url, host="0.0.0.0", port=0, shards=4)
    with pytest.raises(Unusable, match="waterclock keys create --scope admin"):
        async with asyncio.timeout(10):
            await serve(config, asyncio.Event())
    await made("create", "--scope", "admin", "--redis-url", server.url)
    stop = asyncio.Event()
    async with asyncio.timeout(10):
        await serve(config, stop, on_listening=lambda port: stop.set())
    off = config.model_copy(update={"auth": "off"})
    with pytest.raises(Unusable, match="auth is off"):
        await serve(off, stop)


def test_the_command_line_sends_the_key_from_its_file_or_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with running_up(tmp_path) as up:
        url = up.api()
        # Its server runs already: the key is made there.
        key = json.loads(
            keys("create", "--scope", "read", "--data-dir", str(data), "--json").stdout
        )
        assert ask(f"{url}/v1/jobs") == {"jobs": [], "next": None}
    monkeypatch.setenv("WATERCLOCK_AUTH", "required")
    monkeypatch.setitem(__import__("test_cli").ENV, "WATERCLOCK_AUTH", "required")
    file = tmp_path / "key"
    file.write_text(key["key"] + "\n")
    with running_up(tmp_path) as up:
        jobs = ["jobs", "list", "--api", up.api()]
        refused = CliRunner().invoke(main, jobs)
        assert refused.exit_code == 1
        assert "--api-key-file" in refused.output
        assert CliRunner().invoke(main, [*jobs, "--api-key-file", str(file)]).exit_code == 0
        monkeypatch.setenv("WATERCLOCK_API_KEY", key["key"])
        assert CliRunner().invoke(main, jobs).exit_code == 0
        assert "wck_" not in up.text()
