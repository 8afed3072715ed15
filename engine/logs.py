"""Logging: to standard error, a line for each message: UTC time, level, logger, message.

Whatever stands in a message, it stays one line, and no control character reaches the terminal: part
of it may have come from somebody else's server. A traceback follows on lines of its own.
"""

from __future__ import annotations

import logging
import time

LEVELS = ("debug", "info", "warning", "error")


class OneLine(logging.Formatter):
    """Formats a record as `2026-11-30T08:00:00.000Z warning engine.worker the message`."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        return f"{record.asctime} {level:7} {record.name} {printable(record.message)}"

    def usesTime(self) -> bool:
        return True


def printable(text: str) -> str:
    """Return `text` with what cannot be printed (line ends and escapes among it) spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def set_up_logging(level: str) -> None:
    """Send what is at least `level` (one of LEVELS) to standard error.

    Servers and drivers that report every request at `info` speak from `warning` on.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for chatty in ("asyncio", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
