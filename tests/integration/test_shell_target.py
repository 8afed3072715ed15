"""The shell target against real commands: what they get, what they come to, and that nothing of
them is left."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from engine import codec
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.execution import Delivery
from engine.model import ShellTarget, Target, WorkerTarget
from engine.targets import Attempted
from engine.targets.process_group import MAX_OUTPUT_BYTES, Command, ProcessGroup
from engine.targets.shell import MAX_PAYLOAD_VARIABLE_BYTES, ShellRunner

AT = 1_800_000_000_042
ME = pwd.getpwuid(os.geteuid())
HOME = ME.pw_dir if os.path.isdir(ME.pw_dir) else "/"
SECRET = "hunter2"
FOREVER = "sleep 600"

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
async def runner() -> AsyncIterator[ShellRunner]:
    async with opened() as runner:
        yield runner


@asynccontextmanager
async def opened() -> AsyncIterator[ShellRunner]:
    """A runner that leaves nothing behind, in a loop in which no callback fails."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    runner = ShellRunner(clock=ManualClock(AT), grace_ms=10_000, linger_ms=100)
    yield runner
    await runner.close()
    await eventually(lambda: not command_threads(), "every command is reaped")
    assert faults == []


def delivery(target: Target, payload: bytes = b"null") -> Delivery:
    return Delivery(
        shard=0,
        queue="shell",
        entry_id="1-0",
        consumer="w1",
        deliveries=1,
        execution_id=f"nightly@{AT}",
        attempt=3,
        due_at=AT,
        target=codec.dump_target(target),
        payload=payload,
        retry=b"",
    )


async def attempt(
    runner: ShellRunner, command: str, *, payload: bytes = b"null", **more: Any
) -> Attempted:
    return await runner.run(delivery(ShellTarget(command, **more), payload))


async def output_of(runner: ShellRunner, command: str, **more: Any) -> str:
    """Return what a command prints; it must succeed."""
    attempted = await attempt(runner, command, **more)
    assert attempted.succeeded, attempted
    return attempted.output or ""


async def eventually(look: Callable[[], object], what: str) -> None:
    for _ in range(1_000):
        if look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within 10 s: {what}")


def command_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "waterclock-command"]


def is_unreaped(pid: int) -> bool:
    """Return whether a process has ended, and its parent, which we are, has not taken notice."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def is_alive(pid: int) -> bool:
    """Return whether a process runs; what is dead and waits for its parent does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return shown.stdout.strip() not in (b"", b"Z", b"Zs")


# What an exit comes to


async def test_status_0_is_success_with_the_output(runner: ShellRunner) -> None:
    attempted = await attempt(runner, "echo out; echo err >&2; echo more")
    assert attempted == Attempted(True, exit_status=0, output="out\nerr\nmore\n")


async def test_a_silent_command_has_no_output(runner: ShellRunner) -> None:
    assert await attempt(runner, "true") == Attempted(True, exit_status=0)


@pytest.mark.parametrize("status", [1, 3, 125, 128, 255])
async def test_any_other_status_may_pass(runner: ShellRunner, status: int) -> None:
    assert await attempt(runner, f"echo a; exit {status}") == Attempted(
        False, error=f"exit: status {status}", kind="exit", exit_status=status, output="a\n"
    )


async def test_a_command_that_is_not_there_is_final(runner: ShellRunner) -> None:
    attempted = await attempt(runner, "/no/such/command")
    assert (attempted.exit_status, attempted.is_final) == (127, True)
    assert "not found" in (attempted.output or "")


async def test_a_command_that_is_not_executable_is_final(
    runner: ShellRunner, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch(0o600)
    attempted = await attempt(runner, str(file))
    assert (attempted.exit_status, attempted.is_final) == (126, True)


async def test_death_by_a_signal_is_told_by_its_name_and_may_pass(runner: ShellRunner) -> None:
    assert await attempt(runner, "echo a; kill -KILL $$") == Attempted(
        False, error="signal: SIGKILL", kind="signal", output="a\n"
    )


async def test_a_signal_without_a_name_is_told_by_its_number(runner: ShellRunner) -> None:
    number = signal.SIGRTMIN + 1
    assert (await attempt(runner, f"kill -{number} $$")).error == f"signal: {number}"


async def test_another_kind_of_target_is_refused(runner: ShellRunner) -> None:
    attempted = await runner.run(delivery(WorkerTarget()))
    assert (attempted.succeeded, attempted.is_final) == (False, True)


# What a command gets


async def test_the_environment_is_crons_and_nothing_of_the_workers(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_REDIS_URL", f"redis://:{SECRET}@127.0.0.1/")
    printed = await output_of(runner, "env", env={"MORE": "a=ü"}, payload=b'{"n":1}', cwd="/")
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    variables.pop("PWD")  # the shell's own
    variables.pop("_", None)
    assert variables == {
        "PATH": "/usr/bin:/bin",
        "SHELL": "/bin/sh",
        "HOME": ME.pw_dir,
        "LOGNAME": ME.pw_name,
        "USER": ME.pw_name,
        "MORE": "a=ü",
        "WATERCLOCK_EXECUTION_ID": f"nightly@{AT}",
        "WATERCLOCK_JOB_ID": "nightly",
        "WATERCLOCK_SCHEDULED_FOR": "2027-01-15T08:00:00.042Z",
        "WATERCLOCK_ATTEMPT": "3",
        "WATERCLOCK_PAYLOAD": '{"n":1}',
    }


async def test_a_job_may_change_its_path_and_not_what_it_is_known_by(runner: ShellRunner) -> None:
    env = {"PATH": "/opt:/bin:/usr/bin", "WATERCLOCK_JOB_ID": "other"}
    printed = await output_of(runner, "echo $PATH $WATERCLOCK_JOB_ID", env=env)
    assert printed == "/opt:/bin:/usr/bin nightly\n"


async def test_the_variable_shell_picks_the_shell(runner: ShellRunner, tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "mine: $*"\n')
    shell.chmod(0o700)
    assert await output_of(runner, "a  b", env={"SHELL": str(shell)}) == "mine: -c a  b\n"
    assert await output_of(runner, "echo $0", env={"SHELL": ""}) == "/bin/sh\n"


@pytest.mark.parametrize(
    ("stdin", "payload", "wanted"),
    [
        ("a\nü", b'{"n":1}', "a\nü"),
        ("", b'{"n":1}', ""),
        (None, b'{"n":1}', '{"n":1}'),
        (None, b"null", ""),
    ],
)
async def test_standard_input_is_the_jobs_own_or_else_the_payload(
    runner: ShellRunner, stdin: str | None, payload: bytes, wanted: str
) -> None:
    assert await output_of(runner, "cat", stdin=stdin, payload=payload) == wanted


@pytest.mark.parametrize(
    ("size", "is_there"),
    [(MAX_PAYLOAD_VARIABLE_BYTES - 1, "yes"), (MAX_PAYLOAD_VARIABLE_BYTES, "")],
)
async def test_a_long_payload_is_on_standard_input_alone(
    runner: ShellRunner, size: int, is_there: str
) -> None:
    payload = b'"' + b"x" * (size - 2) + b'"'
    printed = await output_of(runner, "echo ${WATERCLOCK_PAYLOAD+yes}; wc -c", payload=payload)
    assert printed.split("\n")[0] == is_there
    assert printed.split()[-1] == str(size)


async def test_a_null_payload_is_no_variable(runner: ShellRunner) -> None:
    assert await output_of(runner, "echo ${WATERCLOCK_PAYLOAD+yes}") == "\n"


async def test_a_command_need_not_read_its_input(runner: ShellRunner) -> None:
    long = b'"' + b"x" * 250_000 + b'"'  # more than a pipe holds
    assert (await attempt(runner, "exec 0<&-; echo a", payload=long)).output == "a\n"
    assert (await attempt(runner, "true", payload=long)).succeeded


async def test_a_command_that_leaves_its_input_unread_holds_up_nothing(
    runner: ShellRunner, tmp_path: Path
) -> None:
    long = b'"' + b"x" * 250_000 + b'"'
    command = "sleep 2; touch done"
    attempted = await attempt(runner, command, payload=long, cwd=str(tmp_path), timeout_ms=200)
    assert attempted.kind == "timeout"
    assert not (tmp_path / "done").exists()


async def test_a_command_runs_where_its_job_says(runner: ShellRunner, tmp_path: Path) -> None:
    assert await output_of(runner, "pwd", cwd=str(tmp_path)) == f"{tmp_path}\n"


async def test_a_command_runs_at_home_unless_its_job_says_where(
    runner: ShellRunner, tmp_path: Path
) -> None:
    assert await output_of(runner, "pwd") == f"{HOME}\n"
    assert await output_of(runner, "pwd", env={"HOME": str(tmp_path)}) == f"{tmp_path}\n"
    assert await output_of(runner, "pwd", env={"HOME": "/no/such/home"}) == "/\n"


async def test_a_command_has_the_same_umask_on_every_worker(runner: ShellRunner) -> None:
    before = os.umask(0o077)
    try:
        assert await output_of(runner, "umask") == "0022\n"
    finally:
        os.umask(before)


async def test_a_command_gets_no_descriptor_of_the_workers(runner: ShellRunner) -> None:
    inheritable = os.dup(0)
    os.set_inheritable(inheritable, True)
    try:
        printed = await output_of(runner, "ls /dev/fd/", payload=b"1")
    finally:
        os.close(inheritable)
    assert printed.split() == ["0", "1", "2", "3"]  # 3: ls reads the directory


async def test_a_command_may_open_its_streams_by_name(runner: ShellRunner) -> None:
    printed = await output_of(runner, "cat /dev/stdin >/dev/stdout; echo b >/dev/stderr", stdin="a")
    assert printed == "ab\n"


# Output


async def test_the_last_64_kib_of_the_output_are_kept(runner: ShellRunner) -> None:
    printed = await output_of(runner, "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    assert printed == "x" * (MAX_OUTPUT_BYTES - 4) + "end\n"


async def test_output_is_cut_between_characters(runner: ShellRunner) -> None:
    command = "yes é | tr -d '\\n' | head -c 200000; echo"
    printed = await output_of(runner, command)
    assert printed == "é" * (MAX_OUTPUT_BYTES // 2 - 1) + "\n"


async def test_output_is_always_text(runner: ShellRunner) -> None:
    assert await output_of(runner, r"printf '\200a\377'") == "\ufffda\ufffd"


# What cannot be started


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"cwd": "/no/such/place"}, "shell: there is no directory '/no/such/place'"),
        ({"cwd": "/bin/sh"}, "shell: there is no directory '/bin/sh'"),
        ({"user": "no-such-user"}, "shell: there is no user 'no-such-user' on this machine"),
        ({"env": {"SHELL": "/no/zsh"}}, "shell: /no/zsh: No such file or directory"),
        ({"env": {"SHELL": "/"}}, "shell: /: Permission denied"),
        ({"env": {"A": "x" * 140_000}}, "shell: /bin/sh: Argument list too long"),
        ({"env": {"A": "\0"}}, "shell: it cannot be started: ValueError"),
    ],
)
async def test_what_can_never_be_started_is_final_and_says_why(
    runner: ShellRunner, target: dict[str, Any], reason: str
) -> None:
    attempted = await attempt(runner, f"echo {SECRET}", **target)
    assert attempted == Attempted(False, error=reason, is_final=True, kind="shell")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
async def test_what_the_machine_lacks_now_may_pass(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = len(os.listdir("/dev/fd"))
    attempted = await attempt(runner, "true", stdin="a")
    expected = Attempted(False, error=f"shell: {os.strerror(number)}", kind="shell")
    assert attempted == expected
    assert len(os.listdir("/dev/fd")) == before


async def test_a_machine_without_threads_may_have_some_later(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    attempted = await attempt(runner, "true")
    assert (attempted.succeeded, attempted.is_final, attempted.kind) == (False, False, "shell")


# Users


async def test_the_workers_own_user_is_no_switch(runner: ShellRunner) -> None:
    assert await output_of(runner, "id -un", user=ME.pw_name) == f"{ME.pw_name}\n"


async def test_a_worker_that_is_not_roots_runs_what_names_its_own_user(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(os, "geteuid", lambda: nobody.pw_uid)
    assert await output_of(runner, "echo $USER; id -u", user="nobody") == f"nobody\n{os.getuid()}\n"


async def test_only_roots_worker_can_become_another_user(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    reason = "shell: a worker that is not root's cannot become user 'root'"
    assert await attempt(runner, "true", user="root") == Attempted(
        False, error=reason, is_final=True, kind="shell"
    )


async def test_a_worker_whose_user_has_no_account_runs_commands_at_the_root(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert await output_of(runner, "echo $USER $HOME; pwd") == "12345 /\n/\n"


@only_root
async def test_root_becomes_the_user_with_its_groups_alone(runner: ShellRunner) -> None:
    nobody = pwd.getpwnam("nobody")
    groups = sorted(os.getgrouplist("nobody", nobody.pw_gid))
    command = "id -u; id -g; echo $(id -G); echo $USER $LOGNAME $HOME; umask"
    before = os.getgroups()
    os.setgroups([*before, 54_321])
    try:
        printed = await output_of(runner, command, user="nobody")
    finally:
        os.setgroups(before)
    user, group, all_groups, names, umask = printed.splitlines()
    assert (int(user), int(group)) == (nobody.pw_uid, nobody.pw_gid)
    assert sorted(map(int, all_groups.split())) == groups
    assert names == f"nobody nobody {nobody.pw_dir}"
    assert umask == "0022"


@only_root
async def test_another_user_may_open_its_streams_by_name(runner: ShellRunner) -> None:
    command = "cat /dev/stdin >/dev/stdout; echo b >/dev/stderr"
    assert await output_of(runner, command, user="nobody", stdin="a") == "ab\n"


@only_root
async def test_a_root_that_may_not_switch_says_so(
    runner: ShellRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", "/")

    monkeypatch.setattr(subprocess, "Popen", refuse)  # as in a container without CAP_SETUID
    attempted = await attempt(runner, "true", user="nobody")
    assert attempted.error == "shell: not permitted to become user 'nobody'"
    assert attempted.is_final


# The end of a group


async def test_the_timeout_ends_the_whole_group(runner: ShellRunner) -> None:
    attempted = await attempt(runner, f"{FOREVER} & echo $!; {FOREVER} | cat", timeout_ms=300)
    assert attempted == Attempted(
        False,
        error="timeout: still running after 300 ms",
        kind="timeout",
        output=attempted.output,
    )
    pid = int(attempted.output or "")
    await eventually(lambda: not is_alive(pid), "the shell's child is gone")


@pytest.mark.parametrize(
    ("began_at", "error"),
    [
        (AT - 59_900, "deadline: still running after 100 ms"),
        (AT - 60_000, "deadline: none of it was left"),
    ],
)
async def test_the_deadline_of_the_execution_ends_a_command_for_good(
    runner: ShellRunner, began_at: int, error: str
) -> None:
    given = delivery(ShellTarget(FOREVER))
    retry = codec.dump_retry(Retry(deadline_ms=60_000))
    attempted = await runner.run(replace(given, retry=retry, began_at=began_at))
    assert attempted == Attempted(False, error=error, kind="deadline", is_final=True)


async def test_a_group_is_asked_to_end_before_it_is_killed(runner: ShellRunner) -> None:
    command = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done"
    attempted = await attempt(runner, command, timeout_ms=500)
    assert (attempted.succeeded, attempted.kind) == (False, "timeout")
    assert (attempted.output or "").endswith("asked\n")


async def test_a_group_that_does_not_listen_is_killed() -> None:
    runner = ShellRunner(grace_ms=100)
    command = f"trap 'echo no' TERM; ({FOREVER}) & echo $!; while :; do sleep 0.01; done"
    attempted = await attempt(runner, command, timeout_ms=500)
    assert (attempted.succeeded, attempted.kind) == (False, "timeout")
    pid, *answers = (attempted.output or "").splitlines()
    assert answers[-1] == "no"
    await eventually(lambda: not is_alive(int(pid)), "the shell's child is gone")


@pytest.mark.parametrize("streams", ["", ">/dev/null 2>&1"])
async def test_what_a_shell_leaves_behind_ends_with_it(runner: ShellRunner, streams: str) -> None:
    printed = await output_of(runner, f"{FOREVER} {streams} & echo $!")
    await eventually(lambda: not is_alive(int(printed)), "the shell's child is gone")


async def test_what_a_shell_leaves_behind_may_still_print_for_a_moment() -> None:
    runner = ShellRunner(linger_ms=10_000)
    assert await output_of(runner, "(sleep 0.1; echo late) & echo early") == "early\nlate\n"


async def test_what_made_a_session_of_its_own_lives_on(runner: ShellRunner, tmp_path: Path) -> None:
    command = (
        f"setsid sh -c 'echo $$ >pid; exec {FOREVER}' & while ! [ -s pid ]; do sleep 0.01; done"
    )
    await output_of(runner, command, cwd=str(tmp_path))
    pid = int((tmp_path / "pid").read_text())
    try:
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_a_cancelled_attempt_asks_its_group_to_end(
    runner: ShellRunner, tmp_path: Path
) -> None:
    command = "trap 'touch asked; exit 0' TERM; touch started; while :; do sleep 0.01; done"
    task = asyncio.create_task(attempt(runner, command, cwd=str(tmp_path)))
    await eventually((tmp_path / "started").exists, "the command has started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "asked").exists()


async def test_an_attempt_that_is_cancelled_again_kills_its_group_at_once(
    runner: ShellRunner, tmp_path: Path
) -> None:
    command = "trap 'touch asked' TERM; echo $$ >pid; touch started; while :; do sleep 0.01; done"
    task = asyncio.create_task(attempt(runner, command, cwd=str(tmp_path)))
    await eventually((tmp_path / "started").exists, "the command has started")
    task.cancel()
    await eventually((tmp_path / "asked").exists, "the command was asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)  # the grace is 10 s
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_closing_ends_what_runs_and_keeps_the_grace_of_what_is_ending(
    runner: ShellRunner, tmp_path: Path
) -> None:
    tasks = []
    for name in ("a", "b"):
        command = (
            f"trap 'sleep 0.2; touch {name}.done; exit' TERM; touch {name};"
            " while :; do sleep 0.01; done"
        )
        tasks.append(asyncio.create_task(attempt(runner, command, cwd=str(tmp_path))))
        await eventually((tmp_path / name).exists, "the command has started")
    tasks[0].cancel()
    await asyncio.sleep(0)
    await runner.close()
    assert [task.cancelled() for task in tasks] == [True, True]
    assert (tmp_path / "a.done").exists()
    assert (tmp_path / "b.done").exists()


async def test_a_command_that_starts_too_late_is_killed_then() -> None:
    let_go = threading.Event()
    group = await _hanging(let_go)
    await group.stop(10)
    await group.end()
    [thread] = command_threads()
    let_go.set()
    await eventually(lambda: not thread.is_alive(), "the command is killed and reaped")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_command_that_starts_after_the_event_loop_is_killed(
    run: Callable[[Coroutine[Any, Any, ProcessGroup]], ProcessGroup],
) -> None:
    let_go = threading.Event()
    run(_hanging(let_go))
    [thread] = command_threads()
    let_go.set()
    thread.join(10)
    assert not thread.is_alive()


async def _hanging(let_go: threading.Event) -> ProcessGroup:
    """Return a group that starts its command when it is let go."""

    def prepare() -> Command:
        let_go.wait()  # as a directory whose server is away
        env = {b"PATH": b"/bin:/usr/bin"}
        return Command([b"/bin/sh", b"-c", FOREVER.encode()], "/", env, stdin=b"a")

    group = ProcessGroup(prepare)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(group.run(), 0.05)
    return group


async def test_a_dead_shell_keeps_its_id_until_its_group_is_ended() -> None:
    command = Command([b"/bin/sh", b"-c", b"echo $$"], "/", {})
    group = ProcessGroup(lambda: command)
    await group.run()
    await group.linger(10)
    pid = int(group.output or "")
    assert is_unreaped(pid)
    await group.end()
    await eventually(lambda: not is_unreaped(pid), "it is reaped")


async def test_many_commands_leave_nothing_behind(runner: ShellRunner) -> None:
    await attempt(runner, "true")
    before = len(os.listdir("/dev/fd"))
    found = await asyncio.gather(*(output_of(runner, "echo $$", stdin="a") for _ in range(100)))
    await eventually(lambda: not command_threads(), "every command is reaped")
    assert len(os.listdir("/dev/fd")) == before
    assert not any(is_unreaped(int(pid)) for pid in found)


@pytest.mark.parametrize(
    "test",
    [
        test_status_0_is_success_with_the_output,
        test_death_by_a_signal_is_told_by_its_name_and_may_pass,
        test_a_command_need_not_read_its_input,
        test_a_command_gets_no_descriptor_of_the_workers,
        test_a_command_may_open_its_streams_by_name,
        test_the_last_64_kib_of_the_output_are_kept,
        test_the_workers_own_user_is_no_switch,
        test_the_timeout_ends_the_whole_group,
        test_many_commands_leave_nothing_behind,
    ],
)
def test_it_is_the_same_on_uvloop_which_workers_run_on(
    test: Callable[[ShellRunner], Awaitable[None]],
) -> None:
    async def on_uvloop() -> None:
        async with opened() as runner:
            await test(runner)

    uvloop.run(on_uvloop())
