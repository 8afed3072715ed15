"""One command in a process group of its own: its start, its output, and an end that leaves nothing.

Not asyncio's subprocesses: uvloop's take neither a user nor a umask, and give the command sockets,
which it cannot open as /dev/stdout. Here a thread starts the command and waits for it; its pipes
belong to the event loop.

The thread sees the end of the shell without reaping it, until all is done: as long as the dead
shell is there, no other process can get its id, which is the group's, and so no other is signalled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import FileIO
from typing import TypeVar

MAX_OUTPUT_BYTES = 64 * 1024
UMASK = 0o022
READ_BYTES = 64 * 1024
KILLED_S = 1.0
"""How long a killed shell is waited for. One that hangs in the kernel is left to the thread."""

_MIDDLES = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that are not the first of a character."""

Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Ids:
    """Whom to become."""

    user: int
    group: int
    groups: Sequence[int]
    """All that the user is in."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. With `ids` the process has to be root's."""

    argv: Sequence[bytes]
    cwd: str
    env: Mapping[bytes, bytes]
    stdin: bytes = b""
    ids: Ids | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How a shell ended: with an exit status, or by the signal of this number."""

    number: int
    is_killed: bool

    @property
    def signal_name(self) -> str:
        """`SIGKILL`, or the number of a signal that has no name."""
        names = {known.value: known.name for known in signal.Signals}
        return names.get(self.number, str(self.number))


class ProcessGroup:
    """Runs one command, once: `run`, then `linger` or `stop`, then always `end`.

    `failure` is why it could not be started, `status` how its shell ended.
    """

    def __init__(self, prepare: Callable[[], Command]) -> None:
        """Take a function that returns the command; it may block, and what it raises is the
        `failure`."""
        self.failure: Exception | None = None
        self.status: Status | None = None
        self._prepare = prepare
        self._loop = asyncio.get_running_loop()
        self._pid: int | None = None
        self._stdin: FileIO | None = None
        self._stdout: FileIO | None = None
        self._to_write = b""
        self._tail = _Tail()
        self._is_started, self._is_over, self._is_silent = (asyncio.Event() for _ in range(3))
        self._is_abandoned = False
        self._may_reap = threading.Event()

    @property
    def output(self) -> str | None:
        """The last 64 KiB of what it printed, as UTF-8; None if that is nothing."""
        return self._tail.text or None

    async def run(self) -> None:
        """Start the command; return when its shell has ended, or could not be started."""
        try:
            threading.Thread(target=self._live, name="waterclock-command", daemon=True).start()
        except RuntimeError as error:  # the system has no thread left
            self._fail(error)
        await self._is_started.wait()
        await self._is_over.wait()

    async def linger(self, seconds: float) -> None:
        """Wait for the end of the output: what the shell started may hold it open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_silent.wait()

    async def stop(self, seconds: float) -> None:
        """Ask all of the group to end; wait until its shell and its output have."""
        if self._pid is not None:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
                    await self._is_silent.wait()

    async def end(self) -> None:
        """Kill what is left of the group, and give everything back."""
        self._is_abandoned = True
        if self._pid is None:
            return
        self._signal(signal.SIGKILL)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(KILLED_S):
                    await self._is_over.wait()
        finally:
            self._release()

    def _signal(self, number: signal.Signals) -> None:
        assert self._pid is not None
        # Not permitted: what is left has become another user, as sudo does.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _write(self) -> None:
        """Write what standard input takes; close it after the last of it, or if nobody reads."""
        if self._stdin is None:
            return
        try:
            # What cannot be written now is None.
            self._to_write = self._to_write[self._stdin.write(self._to_write) or 0 :]
        except BrokenPipeError:
            self._to_write = b""
        if not self._to_write:
            self._loop.remove_writer(self._stdin)
            self._stdin.close()
            self._stdin = None

    def _read(self) -> None:
        """Take what has been printed, and note the end of it."""
        if self._stdout is None:
            return
        data = self._stdout.read(READ_BYTES)
        if data:
            self._tail.add(data)
        elif data is not None:  # None: nothing now, and somebody may still write
            self._loop.remove_reader(self._stdout)
            self._is_silent.set()

    def _release(self) -> None:
        loop = self._loop
        for pipe, forget in (
            (self._stdin, loop.remove_writer),
            (self._stdout, loop.remove_reader),
        ):
            if pipe is not None:
                forget(pipe)
                pipe.close()
        self._stdin = self._stdout = None
        self._may_reap.set()

    # What the thread tells

    def _fail(self, error: Exception) -> None:
        self.failure = error
        for event in (self._is_started, self._is_over, self._is_silent):
            event.set()
        self._release()

    def _start(self, pid: int) -> None:
        self._pid = pid
        self._is_started.set()
        if self._is_abandoned:
            self._signal(signal.SIGKILL)
            self._release()
            return
        assert self._stdout is not None
        self._loop.add_reader(self._stdout, self._read)
        if self._stdin is not None:
            self._loop.add_writer(self._stdin, self._write)

    def _exit(self, status: Status) -> None:
        self.status = status
        self._is_over.set()

    # The thread

    def _live(self) -> None:
        try:
            process = self._spawn(self._prepare())
        except Exception as error:
            self._tell(self._fail, error)
            return
        if not self._tell(self._start, process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        is_killed = found.si_code != os.CLD_EXITED
        self._tell(self._exit, Status(found.si_status, is_killed))
        self._may_reap.wait()
        process.wait()

    def _spawn(self, command: Command) -> subprocess.Popen[bytes]:
        with ExitStack() as theirs:
            ids = command.ids
            self._stdout, stdout = _pipe(theirs, ids, to_us=True)
            stdin: FileIO | int = subprocess.DEVNULL
            if command.stdin:
                self._to_write = command.stdin
                self._stdin, stdin = _pipe(theirs, ids, to_us=False)
            return subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=command.env,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=UMASK,
                user=ids.user if ids else None,
                group=ids.group if ids else None,
                extra_groups=ids.groups if ids else None,
            )

    def _tell(self, hear: Callable[[Told], None], what: Told) -> bool:
        """Call a function in the event loop; return whether there is one any more. Without one,
        give everything back from here."""
        try:
            self._loop.call_soon_threadsafe(hear, what)
        except RuntimeError:
            self._release()
            return False
        return True


def _pipe(theirs: ExitStack, ids: Ids | None, *, to_us: bool) -> tuple[FileIO, FileIO]:
    """Return our end of a new pipe and the command's, which `theirs` closes.

    It is made the command's own: a user other than ours may use it in any case, but could not open
    it again as /dev/stdout.
    """
    fds = os.pipe()
    reader, writer = FileIO(fds[0], "rb"), FileIO(fds[1], "wb")
    our_end, their_end = (reader, writer) if to_us else (writer, reader)
    theirs.enter_context(their_end)
    os.set_blocking(our_end.fileno(), False)
    if ids:
        os.fchown(their_end.fileno(), ids.user, ids.group)
    return our_end, their_end


class _Tail:
    """The last bytes of what is added."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_cut = False

    def add(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > MAX_OUTPUT_BYTES:
            self._is_cut = True
            del self._kept[:-MAX_OUTPUT_BYTES]

    @property
    def text(self) -> str:
        kept = bytes(self._kept)
        if self._is_cut:
            kept = kept.lstrip(_MIDDLES)  # the cut may have hit the middle of a character
        return kept.decode("utf-8", "replace")
