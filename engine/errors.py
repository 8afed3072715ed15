"""Every error that Waterclock raises on purpose: one tree, one stable code each.

    WaterclockError
    ├── BadInput            what the caller sent is wrong          (400 unless said)
    │   ├── BadExpression   a schedule expression cannot be read
    │   ├── NeverFires      a schedule has no time within 100 years
    │   ├── TargetNotPublic     a target's address is not public, and not allowed by the settings
    │   ├── PortNotAllowed      a target's port is not one that is called
    │   ├── SchemeNotAllowed    a target's URL is neither http nor https
    │   ├── UserinfoNotAllowed  a target's URL holds a user or password
    │   ├── CallsItself     a target is this deployment's own API                (403)
    │   └── BadSignature        a webhook is not signed as it must be, or too old
    ├── Unauthorized        no key came with the request, or none that is good   (401)
    ├── Forbidden           the key that came may not do this      (403)
    │   └── CrossSite       a page of another site sends this
    ├── NotFound            no such job or execution               (404)
    ├── Conflict            the thing is not in the state needed   (409)
    │   ├── JobExists
    │   ├── Cycle           a job would depend on itself, through others
    │   ├── HasDependents   other jobs depend on the one to be deleted
    │   ├── WrongState      e.g. resume of a job that is not paused
    │   ├── IdempotencyConflict  an Idempotency-Key was used for another request
    │   ├── RequestInProgress    the request is being carried out already
    │   └── StaleDelivery   the lease of an execution is with somebody else
    ├── Expired             the time to do this is over              (410)
    ├── RateLimited         more requests than the key may send in this time     (429)
    ├── QuotaExceeded       more jobs, or bytes of payload, than the key may have  (429)
    ├── Frozen              the deployment is moving to another server, or has moved
    ├── Fenced              a newer lease was granted for the shard
    ├── Busy                this process can take no more of them now
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


class TargetNotPublic(BadInput):
    code = "target_not_public"


class PortNotAllowed(BadInput):
    code = "port_not_allowed"


class SchemeNotAllowed(BadInput):
    code = "scheme_not_allowed"


class UserinfoNotAllowed(BadInput):
    code = "userinfo_not_allowed"


class CallsItself(BadInput):
    code = "loop"


class BadSignature(BadInput):
    code = "bad_signature"


class Unauthorized(WaterclockError):
    code = "unauthorized"


class Forbidden(WaterclockError):
    code = "forbidden"


class CrossSite(Forbidden):
    code = "cross_site"


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


class IdempotencyConflict(Conflict):
    code = "idempotency_conflict"


class RequestInProgress(Conflict):
    code = "request_in_progress"


class StaleDelivery(Conflict):
    code = "stale_delivery"


class Expired(WaterclockError):
    code = "expired"


class RateLimited(WaterclockError):
    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QuotaExceeded(WaterclockError):
    code = "quota_exceeded"


class Fenced(WaterclockError):
    code = "fenced"


class Frozen(WaterclockError):
    code = "frozen"


class Busy(WaterclockError):
    code = "busy"


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
