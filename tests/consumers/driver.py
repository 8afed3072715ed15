"""Drives examples/python/consumer.py by lines on stdin, as driver.mjs does the one in Node.

A line is a JSON request, `{"do", "consumer", …}`; its answer is one JSON line on stdout. What a
consumer was handed is kept under the names in `as`, or else the ids of its jobs, and asked about by
its name in `of`.

    driver.py EXAMPLE_FOLDER REDIS_URL QUEUE SCRIPTS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

example, url, queue, scripts = sys.argv[1:]
sys.path.insert(0, example)

from consumer import Consumer  # type: ignore[import-not-found]  # noqa: E402

consumers: dict[str, Any] = {}
held: dict[str, Any] = {}


def shown(deliveries: list[Any], names: list[str]) -> list[dict[str, Any]]:
    """Return what was handed over, and keep it under the names."""
    ids = [delivery.execution_id.partition("@")[0] for delivery in deliveries]
    held.update(zip(names or ids, deliveries, strict=False))
    return [
        {
            "execution_id": delivery.execution_id,
            "attempt": int(delivery.fields["attempt"]),
            "deliveries": delivery.deliveries,
            "payload": json.loads(delivery.fields["payload"]),
        }
        for delivery in deliveries
    ]


def answer(ask: dict[str, Any]) -> Any:
    if ask["do"] == "reset":
        consumers.clear()
        return held.clear()
    name = ask["consumer"]
    if name not in consumers:
        consumers[name] = Consumer(url, queue, name, Path(scripts))
    consumer, delivery = consumers[name], held.get(ask.get("of", ""))
    match ask["do"]:
        case "read":
            return shown(consumer.read(ask.get("block_ms")), ask.get("as", []))
        case "reclaim":
            found, poisoned = consumer.reclaim(100, ask["lease_ms"], ask.get("max_deliveries", 5))
            return {"taken": shown(found, ask.get("as", [])), "poisoned": poisoned}
        case "heartbeat":
            return consumer.heartbeat(delivery)
        case "succeed":
            return consumer.succeed(delivery)
        case "skip":
            return consumer.skip(delivery)
        case "fail":
            return consumer.fail(delivery, ask.get("error", ""), final=ask.get("final", False))
        case "hand_back":
            return consumer.hand_back(delivery)
        case "effect":
            try:
                return consumer.effect(delivery, ask["name"], ask["result"])
            except Exception as error:
                return {"refused": str(error).partition(" ")[0]}
        case "leave":
            return consumer.leave()
        case unknown:
            raise ValueError(unknown)


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
