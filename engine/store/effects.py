"""Side effects of executions: what each gave, so that a redelivery does not repeat it."""

from __future__ import annotations

from engine.errors import BadInput
from engine.execution import Delivery
from engine.store import Store

MOST_RESULT_BYTES = 16 * 1024
MOST_NAME_CHARS = 128
KEEP_MS = 7 * 86_400_000
"""How long a result is kept after the last one of its execution was recorded."""


async def read_effects(store: Store, delivery: Delivery) -> dict[str, bytes]:
    """Return what the side effects of an execution gave, by name: those of earlier attempts and
    deliveries too."""
    shard = store.layout.shards[delivery.shard]
    found = await store.client.hgetall(shard.effects(delivery.execution_id))
    return {name.decode(): result for name, result in found.items()}


async def record_effect(store: Store, delivery: Delivery, name: str, result: bytes) -> bytes:
    """Record what a side effect gave; return the result that stands, which is an earlier one if
    there is one.

    Raises StaleDelivery, recording nothing, if the delivery is somebody else's by now, and BadInput
    for a name or a result that is too long.
    """
    if not 0 < len(name) <= MOST_NAME_CHARS:
        raise BadInput(f"an effect's name has 1 to {MOST_NAME_CHARS} characters", field="effect")
    if len(result) > MOST_RESULT_BYTES:
        raise BadInput(
            f"an effect's result has {MOST_RESULT_BYTES} bytes at the most; keep what is larger"
            " elsewhere, and its address here",
            field="effect",
        )
    shard = store.layout.shards[delivery.shard]
    stands: bytes = await store.scripts.run(
        "record_effect",
        [shard.ready(delivery.queue), shard.effects(delivery.execution_id)],
        [delivery.entry_id, delivery.consumer, delivery.deliveries, name, result, KEEP_MS],
    )
    return stands
