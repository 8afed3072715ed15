"""The Lua scripts: how a file in `lua/` becomes one call to the server, and its reply a value.

A verb is one file, `lua/NAME.lua`. It opens with a header comment (`Header` says in what form),
then names what it shares with others, one `--@include lib/x` a line; the loader puts
`lua/lib/x.lua` in the place of that line, once for the whole script however many ask for it. Before
all comes the check that the deployment is not frozen (`GUARDS`).

Real servers get a first line `#!lua`, with the flags that the header names. It is what makes a full
server refuse a script before its first write rather than in the middle. fakeredis cannot read it.

Scripts are run by their SHA-1. A server forgets them on restart, failover and flush, so NOSCRIPT is
a normal answer: the script is loaded and the call sent once more. Nothing else is sent twice here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError, ResponseError

from engine.errors import Unusable, from_reply

Client = Redis | RedisCluster
Call = tuple[str, Sequence[str | bytes], Sequence[str | bytes | int]]
"""What to run: script name, KEYS, ARGV."""


def _find_folder() -> Path:
    here = Path(__file__).parent
    in_wheel = here / "lua"
    return in_wheel if in_wheel.is_dir() else here.parent / "lua"


FOLDER = _find_folder()
"""Inside the package in a wheel, beside it in a checkout."""

GUARDS: dict[str, str | None] = {
    "complete_executions": "lib/draining",
    "forget_consumers": "lib/draining",
    "hand_back_executions": "lib/draining",
    "heartbeat_executions": "lib/draining",
    "record_effect": "lib/draining",
    "report_execution": "lib/draining",
    "find_jobs": None,
    "glance_due": None,
    "release_lease": None,
    "announce_scheduler": None,
    "freeze_shard": None,
    "thaw_shard": None,
}
"""Script → what looks whether the deployment is frozen, where it is not lib/frozen. Work that has
begun may end while the deployment drains, a scheduler that stops gives its leases back, and who
looks for jobs finds them."""

# Whatever looks like an include is one: a misspelled line must fail, not pass for a comment.
_INCLUDE = re.compile(r"\s*--\s*@include\b\s*(.*?)\s*$")
_SECTION = re.compile(r"-- (Safe because|KEYS|ARGV|Reply|Error|Flags):\s*(.*)$")
_PROSE = re.compile(r"(?:^|\s)[—-](?:\s|$)")
# Redis 7 says `… script: <sha>, on @user_script:17.`, Valkey leaves out the sha.
_TRACE = re.compile(r" script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.?$")
_LINE = re.compile(r"@?user_script:(\d+)")


@dataclass(frozen=True, slots=True)
class Header:
    """The comment at the top of a script, which is its contract with every language.

    First free text: what the script does. Then sections, in this order, each a label, its text,
    and continuation lines that are indented by two blanks or more:

        -- Safe because: why no interleaving, repeat or crash can hurt
        -- KEYS: names in the order of KEYS
        -- ARGV: names in the order of ARGV; a last `rows...` stands for all that follow
        -- Reply: what comes back
        -- Error: the codes it refuses with
        -- Flags: optional, what follows `flags=` in the first line: allow-oom, no-writes

    Only the line of KEYS or ARGV itself holds names, up to a dash; what comes after is prose.
    """

    about: str
    sections: dict[str, str]

    @classmethod
    def parse(cls, source: str) -> Header:
        """Return the header of a script; a file without one has an empty header."""
        about: list[str] = []
        sections: dict[str, list[str]] = {}
        text = about
        for line in source.splitlines():
            if not line.startswith("--") or _INCLUDE.match(line):
                break
            if found := _SECTION.match(line):
                text = sections.setdefault(found[1], [])
                text.append(found[2])
            else:
                text.append(line[2:].strip())
        return cls("\n".join(about), {label: "\n".join(text) for label, text in sections.items()})

    def names(self, label: str) -> tuple[str, ...]:
        """Return the names in the first line of KEYS, ARGV or Flags; none for a missing section."""
        first, _, _ = self.sections.get(label, "").partition("\n")
        return tuple(_PROSE.split(first, maxsplit=1)[0].split())


@dataclass(frozen=True, slots=True)
class Script:
    """One verb, put together and ready to send."""

    name: str
    text: str
    sha: str
    origins: tuple[str, ...]
    """For each line of the text where it comes from, as `lua/lib/fence.lua:3`."""

    def explain(self, reply: ResponseError) -> Exception:
        """Return our error for a refusal, else the reply itself, its line numbers made ours."""
        said = str(reply)
        if known := from_reply(_TRACE.sub("", said)):
            return known
        reply.args = (_LINE.sub(self._origin, said), *reply.args[1:])
        return reply

    def _origin(self, found: re.Match[str]) -> str:
        line = int(found[1])
        return self.origins[line - 1] if 0 < line <= len(self.origins) else found[0]


@cache
def load(name: str, *, shebang: bool = True, folder: Path = FOLDER) -> Script:
    """Return the script `name` with its includes spliced in; it is read once per process.

    Raises Unusable if a file is missing, includes itself through others, or asks twice for one.
    """
    lines = [*_guard(name, folder), *_splice(name, folder, done=set(), parents=())]
    if shebang:
        flags = Header.parse((folder / f"{name}.lua").read_text("utf-8")).names("Flags")
        first = f"#!lua flags={','.join(flags)}" if flags else "#!lua"
        lines.insert(0, (first, f"lua/{name}.lua:0"))
    text = "".join(f"{line}\n" for line, _ in lines)
    # The digest is the server's name for a script, not a safeguard.
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, tuple(origin for _, origin in lines))


def _guard(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what comes before a script's own lines: the check that the deployment is not frozen."""
    guard = GUARDS.get(name, "lib/frozen")
    if guard and (folder / f"{guard}.lua").is_file():
        yield from _splice(guard, folder, done=set(), parents=())


def _splice(
    name: str, folder: Path, done: set[str], parents: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield (line, origin) of a file and of all that it includes and is not in `done` yet."""
    path = folder / f"{name}.lua"
    if not path.is_file():
        includer = f", included by lua/{parents[-1]}.lua" if parents else ""
        raise Unusable(f"there is no script lua/{name}.lua{includer}")
    parents = (*parents, name)
    asked: set[str] = set()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        origin = f"lua/{name}.lua:{number}"
        found = _INCLUDE.match(line)
        if found is None:
            yield line, origin
            continue
        wanted = found[1]
        if wanted in parents:
            raise Unusable(f"{origin} closes a circle: {' → '.join((*parents, wanted))}")
        if wanted in asked:
            raise Unusable(f"{origin} includes {wanted} a second time")
        asked.add(wanted)
        if wanted not in done:
            done.add(wanted)
            yield from _splice(wanted, folder, done, parents)


def compose(name: str, shebang: bool = True) -> str:
    """Return the full text of a script, as a consumer in another language would load it."""
    return load(name, shebang=shebang).text


class Scripts:
    """Runs scripts on one server or cluster.

    1. By SHA, loading what the server does not know.
    2. A refusal (`FENCED …`) becomes its class of engine.errors.
    3. Any other error reply keeps its redis class; its `user_script:17` becomes
       `lua/lib/fence.lua:3`.

    Connection errors pass through at once: whether a lost call was made is for the caller to
    settle, by sending the same compare-and-set again.
    """

    def __init__(self, client: Client, *, shebang: bool = True, folder: Path = FOLDER) -> None:
        self._client = client
        self._shebang = shebang
        self._folder = folder

    async def run(
        self, name: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int] = ()
    ) -> Any:
        """Return the reply of one script. Raises what it was refused with."""
        script = load(name, shebang=self._shebang, folder=self._folder)
        call = _evalsha(script, keys, args)
        try:
            return await self._client.execute_command(*call)
        except NoScriptError:
            await self._load(script)
        except ResponseError as reply:
            raise script.explain(reply) from None
        try:
            return await self._client.execute_command(*call)
        except ResponseError as reply:
            raise script.explain(reply) from None

    async def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """Return one reply a call, in their order; a refused call has its exception for a reply.

        All calls go out together, and each is atomic by itself only. Those whose script had to be
        loaded first run after the others, so no call may count on an earlier one.
        """
        scripts = [load(name, shebang=self._shebang, folder=self._folder) for name, _, _ in calls]
        replies: list[Any] = [None] * len(calls)
        await self._send(scripts, calls, replies, range(len(calls)))
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        for script in {scripts[at].sha: scripts[at] for at in unknown}.values():
            await self._load(script)
        await self._send(scripts, calls, replies, unknown)
        return [
            script.explain(reply) if isinstance(reply, ResponseError) else reply
            for script, reply in zip(scripts, replies, strict=True)
        ]

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Return one reply a call, as `run_many` does. Raises what the first refused call was
        refused with; the others have been made nevertheless."""
        replies = await self.run_many(calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _load(self, script: Script) -> None:
        try:
            await self._client.script_load(script.text)
        except ResponseError as reply:
            raise script.explain(reply) from None

    async def _send(
        self,
        scripts: Sequence[Script],
        calls: Sequence[Call],
        replies: list[Any],
        which: Sequence[int],
    ) -> None:
        """Run the calls at the places `which` in one pipeline, and put their replies there."""
        if not which:
            return
        pipe = self._client.pipeline(transaction=False)
        for at in which:
            _, keys, args = calls[at]
            pipe.execute_command(*_evalsha(scripts[at], keys, args))
        for at, reply in zip(which, await pipe.execute(raise_on_error=False), strict=True):
            replies[at] = reply


def _evalsha(
    script: Script, keys: Sequence[str | bytes], args: Sequence[str | bytes | int]
) -> tuple[str | bytes | int, ...]:
    return ("EVALSHA", script.sha, len(keys), *keys, *args)
