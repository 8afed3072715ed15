"""floor: the least Redis work of a fire and a completion, in one bare Lua loop each."""

from __future__ import annotations

from bench.floor import mean, measure_floor, measure_oneoff_floor
from bench.stage import PAYLOAD, Metrics, Scenario, Stage

ROUNDS = 3


async def run(stage: Stage) -> Metrics:
    """Return fires of recurring and of one-off jobs and completions a second, and their cost: means
    of rounds that take turns."""
    recurring, oneoff = [], []
    async with stage.store() as store:
        for _ in range(ROUNDS):
            recurring.append(await measure_floor(store.client, stage.size, PAYLOAD))
            oneoff.append(await measure_oneoff_floor(store.client, stage.size, PAYLOAD))
    return mean(*recurring) | mean(*oneoff)


SCENARIO = Scenario(run, size=100_000, quick_size=20_000)
