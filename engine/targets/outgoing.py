"""What one call of an http target sends: URL, headers and body, filled in, traced and signed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from engine.clock import Clock
from engine.errors import Unusable
from engine.execution import Delivery, ErrorKind
from engine.model import HttpTarget
from engine.store import Store
from engine.store.connection import TRANSIENT
from engine.store.history import previous_outcome
from engine.store.secrets import Owner, SigningSecrets
from engine.targets import Attempted, failed
from engine.templating import Context, asks_for, fill_header, fill_json, fill_url
from engine.webhooks import ID, SIGNATURE, TIMESTAMP, sign


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request: `theirs` are the job's own headers, `ours` those that every target gets."""

    url: str
    theirs: Mapping[str, str]
    ours: Mapping[str, str]
    body: bytes


class NotSent(Exception):
    """A request that cannot be made as the job asks for it, and the attempt that comes of it."""

    def __init__(self, attempted: Attempted) -> None:
        super().__init__(attempted.error)
        self.attempted = attempted


class Composer:
    """Makes requests of deliveries.

    1. Fills in placeholders, where the target is a template. What upstream jobs gave is none.
    2. Says what the payload is, which execution this is, and where to respond; traces it.
    3. Signs what is to be signed, or else does not send it.

    Only templates that ask for the previous outcome, and secrets that are not known, cost a look at
    the `store`.
    """

    def __init__(
        self, clock: Clock, callback_url: Callable[[Delivery], str] | None, store: Store | None
    ) -> None:
        self._clock = clock
        self._callback_url = callback_url
        self._store = store
        self._secrets = SigningSecrets(store) if store else None

    async def compose(self, delivery: Delivery, target: HttpTarget) -> Outgoing:
        """Return the request of an attempt that begins now. Raises NotSent."""
        url, theirs, body = target.url, target.headers, _body(delivery)
        if target.template:
            context = await self._context(delivery, target)
            url = fill_url(url, context)
            theirs = {name: fill_header(value, context) for name, value in theirs.items()}
            if body is delivery.payload:
                body = fill_json(body, context)
        ours = self._headers_for(delivery, target, theirs)
        if target.signing is not None:
            ours |= await self._signature(delivery, target, body)
        return Outgoing(url, theirs, ours, body)

    def _headers_for(
        self, delivery: Delivery, target: HttpTarget, theirs: Mapping[str, str]
    ) -> dict[str, str]:
        """Return what any target needs: what the payload is, which execution this is to do it once,
        and where to respond."""
        kinds = [v for name, v in theirs.items() if name.lower() == "content-type"]
        headers = {
            "Content-Type": kinds[0] if kinds else "application/json",
            "Idempotency-Key": delivery.execution_id,
            "Waterclock-Job": delivery.job_id,
            "Waterclock-Scheduled-For": _rfc_3339(delivery.nominal_at),
            "Waterclock-Attempt": str(delivery.attempt),
            "traceparent": _traceparent(delivery),
        }
        if target.respond_async and self._callback_url is not None:
            headers["Prefer"] = "respond-async"
            headers["Waterclock-Callback"] = self._callback_url(delivery)
        return headers

    async def _context(self, delivery: Delivery, target: HttpTarget) -> Context:
        previous = None
        if asks_for("previous_outcome", target, delivery.payload):
            if self._store is None:
                raise NotSent(failed(ErrorKind.INTERNAL, "this worker can read no history"))
            try:
                previous = await previous_outcome(self._store, delivery.job_id, delivery.nominal_at)
            except TRANSIENT:
                why = "the job's history could not be read for a placeholder"
                raise NotSent(failed(ErrorKind.INTERNAL, why)) from None
        return Context(
            delivery.execution_id,
            delivery.job_id,
            delivery.nominal_at,
            delivery.attempt,
            previous or "none",
        )

    async def _signature(
        self, delivery: Delivery, target: HttpTarget, body: bytes
    ) -> dict[str, str]:
        """Return the headers that sign a body. Raises NotSent where there is no secret."""
        if self._secrets is None:
            raise NotSent(failed(ErrorKind.SIGNING, "this worker can read no secrets"))
        now = self._clock.now_ms()
        try:
            owner = Owner.of_call(delivery.job_id, target.signed_by)
            secrets = await self._secrets.of(owner, now)
        except TRANSIENT:
            raise NotSent(failed(ErrorKind.SIGNING, "the secrets could not be read")) from None
        except Unusable as error:
            raise NotSent(failed(ErrorKind.SIGNING, error.message)) from None
        if not secrets:
            why = f"this {target.signing} has no secret; make one with `waterclock secrets create`"
            raise NotSent(failed(ErrorKind.SIGNING, why))
        timestamp = now // 1000
        return {
            ID: delivery.execution_id,
            TIMESTAMP: str(timestamp),
            SIGNATURE: sign(secrets, delivery.execution_id, timestamp, body),
        }


def _body(delivery: Delivery) -> bytes:
    """Return what is sent: the payload, or for a job without one what upstream jobs gave."""
    if delivery.upstream and delivery.payload == b"null":
        return b'{"upstream":' + delivery.upstream + b"}"
    return delivery.payload


def _traceparent(delivery: Delivery) -> str:
    """Return W3C Trace Context: an execution is a trace, each attempt a span of it, and both are
    the same whoever makes the attempt."""
    digest = hashlib.blake2b(delivery.execution_id.encode(), digest_size=24).hexdigest()
    return f"00-{digest[:32]}-{int(digest[32:], 16) ^ delivery.attempt:016x}-01"


@lru_cache(maxsize=1_024)
def _rfc_3339(at: int) -> str:
    # Jobs come due together: most of what runs at once is for one time.
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
