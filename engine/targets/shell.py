"""The shell target: run a command as cron would, and let its exit status decide.

Status 0 is success. 126 and 127 (not executable, not found) are final, as is what keeps a command
from being started at all: its user or its working directory. Any other status, death by a signal
and the timeout are tried again.

A command gets cron's bare environment, what its job adds, and `WATERCLOCK_…` to know its execution
by; of the worker's own environment it gets nothing. Its standard input is the job's `stdin`, or
else the payload, unless that is null. Of what it prints the last 64 KiB are kept.

When its shell has ended, or its time is up, all that is left in its process group is ended too: an
execution that is over in the history is over on the machine. What is to outlive it has to leave the
group, by setsid(1).
"""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
from dataclasses import replace
from datetime import UTC, datetime

from engine import codec
from engine.clock import Clock, ServerClock
from engine.execution import Delivery, ErrorKind
from engine.model import ShellTarget
from engine.targets import Attempted, failed, time_allowed
from engine.targets.process_group import Command, Ids, ProcessGroup, Status

SHELL = "/bin/sh"
PATH = "/usr/bin:/bin"
MAX_PAYLOAD_VARIABLE_BYTES = 32 * 1024
"""A longer payload is not in the environment, only on standard input."""
FINAL_STATUSES = frozenset({126, 127})
FINAL_ERRORS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.E2BIG, errno.ENOEXEC}
)
"""What starting a command may say that another try would hear again. Too many processes, files or
too little memory may pass."""


class _Refused(Exception):
    """Why this worker will never start a command."""


class ShellRunner:
    """Runs commands, each in a process group of its own. Use it inside a running event loop.

    `grace_ms` is what a group has between SIGTERM and SIGKILL, `linger_ms` how long its output may
    go on when the shell itself has ended.
    """

    def __init__(
        self, *, clock: Clock | None = None, grace_ms: int = 5_000, linger_ms: int = 1_000
    ) -> None:
        self._clock = clock or ServerClock()
        self._grace_s = grace_ms / 1000
        self._linger_s = linger_ms / 1000
        self._running: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """End what still runs, as a timeout would."""
        running = [*self._running]
        for task in running:
            if not task.cancelling():  # a second cancel would cut its grace short
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def run(self, delivery: Delivery) -> Attempted:
        """Run the command of a delivery; return how that went.

        Cancelled, it ends the command within the grace; cancelled again, at once.
        """
        target = codec.load_target(delivery.target)
        if not isinstance(target, ShellTarget):
            return failed(ErrorKind.SHELL, "this is no shell target", is_final=True)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await self._run(delivery, target)
        finally:
            self._running.discard(task)

    async def _run(self, delivery: Delivery, target: ShellTarget) -> Attempted:
        allowed_ms, late = time_allowed(delivery, target.timeout_ms, self._clock.now_ms())
        if allowed_ms <= 0:
            return failed(late, "none of it was left", is_final=True)
        group = ProcessGroup(lambda: _command(delivery, target))
        is_late = False
        try:
            async with asyncio.timeout(allowed_ms / 1000):
                await group.run()
            await group.linger(self._linger_s)
        except TimeoutError:
            is_late = True
            await group.stop(self._grace_s)
        except asyncio.CancelledError:
            await group.stop(self._grace_s)
            raise
        finally:
            await group.end()
        if group.failure is not None:
            return _not_started(group.failure, target)
        if is_late or group.status is None:
            is_final = late is ErrorKind.DEADLINE
            attempted = failed(late, f"still running after {allowed_ms} ms", is_final=is_final)
            return replace(attempted, output=group.output)
        return _judge(group.status, group.output)


def _judge(status: Status, output: str | None) -> Attempted:
    if status.is_killed:
        return replace(failed(ErrorKind.SIGNAL, status.signal_name), output=output)
    if status.number == 0:
        return Attempted(True, exit_status=0, output=output)
    is_final = status.number in FINAL_STATUSES
    attempted = failed(ErrorKind.EXIT, f"status {status.number}", is_final=is_final)
    return replace(attempted, exit_status=status.number, output=output)


def _not_started(failure: Exception, target: ShellTarget) -> Attempted:
    """Return what kept a command from being started, without the command or its environment, which
    may hold a secret."""
    match failure:
        case _Refused():
            reason, is_final = str(failure), True
        case OSError(errno=errno.EPERM) if target.user is not None:
            reason, is_final = f"not permitted to become user {target.user!r}", True
        case OSError():
            place = f"{os.fsdecode(failure.filename)}: " if failure.filename else ""
            reason = place + (failure.strerror or type(failure).__name__)
            is_final = failure.errno in FINAL_ERRORS
        case _:
            reason = f"it cannot be started: {type(failure).__name__}"
            is_final = isinstance(failure, ValueError)  # a NUL somewhere
    return failed(ErrorKind.SHELL, reason, is_final=is_final)


def _command(delivery: Delivery, target: ShellTarget) -> Command:
    """Return what to start for a delivery. It may block: users and directories may live elsewhere.

    Raises _Refused for a user or a directory that is not there, and a user that cannot be become.
    """
    name, home, ids = _account(target.user)
    env = {
        "PATH": PATH,
        "SHELL": SHELL,
        "HOME": home,
        "LOGNAME": name,
        "USER": name,
        **target.env,
        **_known_by(delivery),
    }
    cwd = target.cwd
    if cwd is None:
        cwd = env["HOME"] if os.path.isdir(env["HOME"]) else "/"
    elif not os.path.isdir(cwd):
        raise _Refused(f"there is no directory {cwd!r}")
    has_payload = delivery.payload != b"null"
    if has_payload and len(delivery.payload) < MAX_PAYLOAD_VARIABLE_BYTES:
        env["WATERCLOCK_PAYLOAD"] = delivery.payload.decode()
    if 0 < len(delivery.upstream) < MAX_PAYLOAD_VARIABLE_BYTES:
        env["WATERCLOCK_UPSTREAM"] = delivery.upstream.decode()
    stdin = delivery.payload if has_payload else b""
    return Command(
        argv=[part.encode() for part in (env["SHELL"] or SHELL, "-c", target.command)],
        cwd=cwd,
        env={variable.encode(): value.encode() for variable, value in env.items()},
        stdin=stdin if target.stdin is None else target.stdin.encode(),
        ids=ids,
    )


def _account(user: str | None) -> tuple[str, str, Ids | None]:
    """Return name, home directory and, if the worker has to become it, ids of the account that a
    command runs as."""
    own = os.geteuid()
    try:
        account = pwd.getpwuid(own) if user is None else pwd.getpwnam(user)
    except KeyError:
        if user is not None:
            raise _Refused(f"there is no user {user!r} on this machine") from None
        return str(own), "/", None  # as in a container with a number of its own
    ids = None
    if account.pw_uid != own:
        if own != 0:
            raise _Refused(f"a worker that is not root's cannot become user {user!r}")
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        ids = Ids(account.pw_uid, account.pw_gid, groups)
    return account.pw_name, account.pw_dir, ids


def _known_by(delivery: Delivery) -> dict[str, str]:
    """Return what a command needs to know an execution by, and to do its work once."""
    nominal = datetime.fromtimestamp(delivery.nominal_at / 1000, UTC)
    return {
        "WATERCLOCK_EXECUTION_ID": delivery.execution_id,
        "WATERCLOCK_JOB_ID": delivery.job_id,
        "WATERCLOCK_SCHEDULED_FOR": nominal.isoformat(timespec="milliseconds").replace(
            "+00:00", "Z"
        ),
        "WATERCLOCK_ATTEMPT": str(delivery.attempt),
    }
