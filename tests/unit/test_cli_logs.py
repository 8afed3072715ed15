"""What the log looks like."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.logs import OneLine, printable, set_up_logging


@contextmanager
def unset_logging() -> Iterator[None]:
    """Loggers as in a new process; what is done to them here is undone.

    The handlers that pytest put there are taken away before `set_up_logging` could close them.
    """
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, levels = list(root.handlers), (root.level, uvicorn.level)
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        uvicorn.setLevel(levels[1])


def test_a_record_is_time_level_logger_and_message() -> None:
    record = logging.LogRecord("waterclock.worker", logging.WARNING, "", 0, "%d", (7,), None)
    record.created, record.msecs = 1_796_025_600.25, 250.0
    assert OneLine().format(record) == "2026-11-30T08:00:00.250Z warning waterclock.worker 7"


def test_what_a_stranger_sent_stays_in_its_line() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "%s", ("x\n\x1b[31my\r",), None)
    assert OneLine().format(record).endswith(r" a x\n\x1b[31my\r")


def test_printable_keeps_letters_of_every_script() -> None:
    assert printable("Zürich – 時計 ½") == "Zürich – 時計 ½"


def test_the_level_holds_for_all_and_servers_speak_from_warning_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with unset_logging():
        set_up_logging("info")
        logging.getLogger("waterclock").debug("hidden")
        logging.getLogger("waterclock").info("shown")
        logging.getLogger("uvicorn.error").info("hidden")
        logging.getLogger("uvicorn.error").warning("shown")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == ["shown"] * 2


def test_a_quiet_process_has_quiet_servers(capsys: pytest.CaptureFixture[str]) -> None:
    with unset_logging():
        set_up_logging("error")
        logging.getLogger("uvicorn.error").warning("hidden")
        logging.getLogger("uvicorn.error").error("shown")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == ["shown"]
