"""examples/acl/consumer.acl: a consumer with these rights does all its work on its queue, and
cannot do what is no business of its."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import driving
import pytest
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from engine.embedded import EmbeddedServer
from engine.scripts import FOLDER, Header, load
from engine.store import Store
from engine.store.jobs import get_job

port_server = driving.port_server
port_store = driving.port_store
scripts = driving.scripts

ACL = (driving.EXAMPLES / "acl/consumer.acl").read_text("utf-8")
USER, PASSWORD = "consumer-mail", "change-me"
SCRIPTS = (
    "complete_executions",
    "heartbeat_executions",
    "reclaim_executions",
    "forget_consumers",
    "hand_back_executions",
    "record_effect",
)
"""What a consumer runs."""


@pytest.fixture
def user_url(port_server: EmbeddedServer) -> Iterator[str]:
    """The server's URL for the user of the file, who is made for the test."""
    with Redis.from_url(port_server.url) as admin:
        [line] = ACL.splitlines()
        admin.execute_command("ACL", "SETUSER", *line.split()[1:])
        yield f"redis://{USER}:{PASSWORD}@127.0.0.1:{urlsplit(port_server.url).port}/0"
        admin.acl_deluser(USER)


@pytest.fixture
def user(user_url: str, port_store: Store) -> Iterator[Any]:
    with Redis.from_url(user_url) as client:
        yield client


@pytest.fixture
def consumer(user_url: str, port_store: Store, scripts: Any) -> Iterator[driving.Driver]:
    """The example in Python, as this user."""
    program = (sys.executable, driving.HERE / "driver.py", driving.EXAMPLES / "python")
    with driving.driver(*program, user_url, driving.QUEUE, scripts) as running:
        yield running


async def create(store: Store, *jobs: dict[str, Any]) -> None:
    async with driving.calling(store) as client:
        for job in jobs:
            body = {"target": {"type": "worker"}, "queue": driving.QUEUE, **job}
            answer = await client.post("/v1/jobs", json=body)
            assert answer.status_code == 201, answer.text


async def status_of(store: Store, job_id: str) -> str:
    async with driving.calling(store) as client:
        [execution] = (await client.get(f"/v1/jobs/{job_id}/executions")).json()
        return str(execution["status"])


EVERYTHING: list[dict[str, Any]] = [
    {"job_id": "plain"},
    {"job_id": "low", "priority": "low"},
    {"job_id": "high", "priority": "high"},
    {"job_id": "ruled", "overlap": "queue_one", "expires_after_ms": 60_000},
    {"job_id": "brittle", "pause_after_failures": 1, "retry": {"max_attempts": 1}},
    {"job_id": "fleeting", "delete_after_completion": True},
    {"job_id": "listed", "delete_after_completion": True, "group": "acme", "tags": ["a", "b"]},
    {"job_id": "grouped", "group": "acme"},
]


async def test_the_consumer_does_all_its_work(port_store: Store, consumer: driving.Driver) -> None:
    await create(port_store, *EVERYTHING)
    # With a limit on the queue, ends have permits to give back.
    for shard in port_store.layout.shards:
        await port_store.client.hset(shard.gates, mapping={"slots:q/mail": 9, "live:q/mail": 1})
    read = {"do": "read", "consumer": "a"}
    while consumer.ask(read):
        pass
    for job in EVERYTHING:
        of = {"consumer": "a", "of": job["job_id"]}
        assert consumer.ask({"do": "heartbeat", **of}) is True
        assert consumer.ask({"do": "effect", "name": "e", "result": "r", **of}) == "r"
    fails = {"do": "fail", "consumer": "a", "error": "x"}
    assert consumer.ask({**fails, "of": "plain"}) == "done"
    assert consumer.ask({**fails, "of": "brittle"}) == "done"
    assert consumer.ask({"do": "skip", "consumer": "a", "of": "ruled"}) == "done"
    assert consumer.ask({"do": "succeed", "consumer": "a", "of": "fleeting"}) == "done"
    assert consumer.ask({"do": "succeed", "consumer": "a", "of": "listed"}) == "done"
    assert consumer.ask({"do": "hand_back", "consumer": "a", "of": "grouped"}) is True
    assert [one["attempt"] for one in consumer.ask(read)] == [1]
    taken = consumer.ask({"do": "reclaim", "consumer": "b", "lease_ms": 0})["taken"]
    assert len(taken) == 3
    reclaim = {"do": "reclaim", "consumer": "b", "lease_ms": 0, "max_deliveries": 2}
    assert consumer.ask(reclaim)["poisoned"] == 3
    assert consumer.ask({"do": "leave", "consumer": "a"}) > 0
    shard = port_store.layout.shard_of("listed")
    assert not await port_store.client.exists(shard.jobs_with_tag("a"), shard.jobs_with_tag("b"))
    states = {"plain": "retrying", "brittle": "dead", "ruled": "skipped", "grouped": "dead"}
    assert {job_id: await status_of(port_store, job_id) for job_id in states} == states
    for shard in port_store.layout.shards:
        await port_store.client.delete(shard.gates)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_of_a_consumers_scripts_is_permitted(name: str) -> None:
    """A command that is not would end a script in the middle of its writes."""
    calls = re.findall(r"redis\.call\('(\w+)'(?:, '([A-Z]+)')?", load(name).text)
    both = {"xinfo", "xgroup"}
    called = {
        f"{command}|{sub}" if command in both else command
        for command, sub in ((command.lower(), sub.lower()) for command, sub in calls)
    }
    assert called
    assert called <= set(re.findall(r"\+([\w|]+)", ACL))


FORBIDDEN = [
    ("XREADGROUP", "GROUP", "workers", "a", "STREAMS", "wc:{tag}:ready:other", ">"),
    ("XREADGROUP", "GROUP", "workers", "a", "STREAMS", "wc:{tag}:ready:mail2", ">"),
    ("XRANGE", "wc:{tag}:ready:other", "-", "+"),
    ("XACK", "wc:{tag}:ready:other", "workers", "1-1"),
    ("XDEL", "wc:{tag}:ready:other", "1-1"),
    ("XADD", "wc:{tag}:ready:other", "*", "a", "b"),
    ("XRANGE", "wc:{tag}:ledger", "-", "+"),
    ("XTRIM", "wc:{tag}:ready:mail", "MAXLEN", "0"),
    ("XGROUP", "DESTROY", "wc:{tag}:ready:mail", "workers"),
    ("DEL", "wc:{tag}:ready:mail"),
    ("DEL", "wc:{tag}:jobs"),
    ("DEL", "wc:{tag}:ledger"),
    ("ZRANGE", "wc:{tag}:jobs", "0", "-1"),
    ("HGETALL", "wc:{tag}:letter:mail@1"),
    ("HGETALL", "wc:{tag}:plans"),
    ("HSET", "wc:{tag}:plans", "a", "b"),
    ("SET", "wc:{tag}:lease", "a"),
    ("HGETALL", "wc:{tag}:fence"),
    ("SET", "wc:layout", "{}"),
    ("HSET", "wc:queues", "mail", "{}"),
    ("HGETALL", "wc:queues"),
    ("GET", "wc:signing"),
    ("GET", "elsewhere"),
    ("SET", "elsewhere", "1"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("RANDOMKEY",),
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "LIST"),
    ("EVAL", "return 1", "0"),
    ("SCRIPT", "FLUSH"),
    ("FUNCTION", "LIST"),
    ("MONITOR",),
    ("SUBSCRIBE", "a"),
    ("PUBLISH", "a", "b"),
    ("CLIENT", "LIST"),
    ("SHUTDOWN",),
    ("SELECT", "1"),
    ("SWAPDB", "0", "1"),
]


@pytest.mark.parametrize("command", FORBIDDEN, ids=lambda command: " ".join(command[:3]))
def test_the_user_cannot(user: Any, port_store: Store, command: tuple[str, ...]) -> None:
    tag = port_store.layout.shards[0].tag
    with pytest.raises(ResponseError, match=r"(?i)permission|NOPERM"):
        user.execute_command(*(word.replace("{tag}", f"{{{tag}}}") for word in command))


@pytest.mark.parametrize(
    "name",
    [
        "acquire_lease",
        "fire_due",
        "fire_attempts",
        "advance_backfill",
        "create_jobs",
        "replace_job",
        "delete_job",
        "create_backfill",
    ],
)
async def test_the_user_cannot_run_scripts_that_name_other_keys(
    user: Any, port_store: Store, name: str
) -> None:
    """Each has a key of scheduling among its KEYS; none is asked for what it does."""
    await create(port_store, {"job_id": "mail"})
    shard = port_store.layout.shard_of("mail")
    script = load(name)
    await port_store.client.script_load(script.text)
    keys = {"job": shard.job("mail"), "bucket": shard.due("1"), "runs": shard.runs("mail")}
    names = Header.parse((FOLDER / f"{name}.lua").read_text("utf-8")).names("KEYS")
    found = [keys.get(key) or str(getattr(shard, key)) for key in names]
    with pytest.raises(NoPermissionError):
        user.evalsha(script.sha, len(found), *found, "mail")
    assert (await get_job(port_store, "mail")).job.id == "mail"


async def test_what_the_rights_cannot_keep_the_user_from(user: Any, port_store: Store) -> None:
    """Scripts run with the rights of who calls them, so who may end an execution by a script may
    also change what the script changes. lua/README.md says so; were it otherwise, that has to
    change."""
    await create(port_store, {"job_id": "mail"})
    shard = port_store.layout.shard_of("mail")
    [(entry, _)] = await port_store.client.xrange(shard.ready("mail"))
    assert user.xdel(shard.ready("mail"), entry) == 1
    assert user.delete(shard.job("mail")) == 1
    await port_store.client.flushall()


def test_the_file_is_one_line_that_names_the_user_and_no_more() -> None:
    [line] = ACL.splitlines()
    assert line.startswith(f"user {USER} on >{PASSWORD} resetkeys resetchannels nocommands ")
    assert "~*" not in line.split()
    assert json.dumps(line).isascii()
