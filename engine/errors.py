"""Every error that Waterclock raises on purpose: one tree, one stable code each.

    WaterclockError
    ├── BadInput            what the caller sent is wrong          (400 unless said)
    │   ├── BadExpression   a schedule expression cannot be read
    │   └── NeverFires      a schedule has no time within 100 years
    ├── NotFound            no such job or execution               (404)
    ├── Conflict            the thing is not in the state needed   (409)
    │   ├── JobExists
    │   ├── Cycle           a job would depend on itself, through others
    │   ├── HasDependents   other jobs depend on the one to be deleted
    │   ├── WrongState      e.g. resume of a job that is not paused
    │   └── StaleDelivery   the lease of an execution is with somebody else
    ├── Expired             the time to do this is over              (410)
    ├── Fenced              a newer lease was granted for the shard
    ├── NotSupported        understood, and not built yet          (501)
    └── Unusable            this server or setting cannot be worked with; fatal at start

The first word of an error reply from a script is a code below; `from_reply` turns it into its
class.
"""

from __future__ import annotations


class WaterclockError(Exception):
    """Base of the tree. `code` is stable: clients and Lua scripts depend on it."""

    code = "error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        """The input field that is wrong, as a dotted path, where there is one."""


class BadInput(WaterclockError):
    code = "bad_input"


class BadExpression(BadInput):
    code = "bad_expression"


class NeverFires(BadInput):
    code = "never_fires"


class NotFound(WaterclockError):
    code = "not_found"


class Conflict(WaterclockError):
    code = "conflict"


class JobExists(Conflict):
    code = "job_exists"


class Cycle(Conflict):
    code = "cycle"


class HasDependents(Conflict):
    code = "has_dependents"


class WrongState(Conflict):
    code = "wrong_state"


class StaleDelivery(Conflict):
    code = "stale_delivery"


class Expired(WaterclockError):
    code = "expired"


class Fenced(WaterclockError):
    code = "fenced"


class NotSupported(WaterclockError):
    code = "not_supported"


class Unusable(WaterclockError):
    code = "unusable"


def _tree(cls: type[WaterclockError]) -> dict[str, type[WaterclockError]]:
    found = {cls.code: cls}
    for child in cls.__subclasses__():
        found.update(_tree(child))
    return found


CODES = _tree(WaterclockError)
"""Code → class, for every class of the tree."""


def from_reply(reply: str) -> WaterclockError | None:
    """Return the error that a script's reply names by its first word, or None if it names none.

    Scripts spell codes in capitals, as Redis does: `FENCED token 7 is not the newest`.
    """
    word, _, rest = reply.partition(" ")
    cls = CODES.get(word.lower()) if word.isupper() else None
    return cls(rest or word) if cls else None
