"""Leases as workers over HTTP hold them: one opaque word for the proof of a delivery.

The word is the delivery (codec.dump_lease) and the server time of the claim, so that an attempt's
start is known without asking the worker's clock. Nothing in it is trusted: the script that ends a
delivery compares it with the pending entry.
"""

from __future__ import annotations

import re

from engine import codec
from engine.errors import BadInput, StaleDelivery
from engine.execution import Delivery
from engine.names import QUEUE, check_queue, split_execution_id, split_stream
from engine.store import Store

LOST = (
    "the lease ran out and the execution went to another worker, or it has ended otherwise;"
    " nothing was changed"
)
_NO_LEASE = "this is no lease; send the `lease` of the claim's answer as it came"
_MOST = 10**15
"""Times and parts of entry ids are below: they go to scripts as numbers of 15 digits."""


def dump_claimed(delivery: Delivery, claimed_at: int) -> str:
    """Return the lease of a delivery that was claimed at `claimed_at`."""
    return f"{codec.dump_lease(delivery)}.{claimed_at}"


def held_delivery(store: Store, execution_id: str, lease: str) -> tuple[Delivery, int]:
    """Return the delivery that a lease proves, and when it was claimed. Refuses with BadInput what
    is no lease, and with StaleDelivery one of another execution."""
    delivery, claimed_at = _load_claimed(store, lease)
    if delivery.execution_id != execution_id:
        raise StaleDelivery("this lease is of another execution; nothing was changed")
    return delivery, claimed_at


def _load_claimed(store: Store, text: str) -> tuple[Delivery, int]:
    """Refuses with BadInput what cannot be a lease: what it names goes into keys, and the script
    that compares it must not fail."""
    proof, _, claimed_at = text.rpartition(".")
    delivery = codec.load_lease(proof)
    try:
        job_id, _ = split_execution_id(delivery.execution_id)
        check_queue(split_stream(delivery.queue)[0])
        is_sound = (
            re.fullmatch(r"[0-9]{1,15}", claimed_at)
            and delivery.shard == store.layout.shard_of(job_id).index
            and QUEUE.fullmatch(delivery.consumer)
            and re.fullmatch(r"[0-9]{1,15}-[0-9]{1,15}", delivery.entry_id)
            and 1 <= delivery.attempt < 2**31
            and 1 <= delivery.deliveries < 2**31
            and 0 <= delivery.base < delivery.attempt
            and 0 <= (delivery.began_at or 0) < _MOST
        )
    except (ValueError, BadInput):
        is_sound = False
    if not is_sound:
        raise BadInput(_NO_LEASE, field="lease")
    return delivery, int(claimed_at)
