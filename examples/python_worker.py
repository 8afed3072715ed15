"""A worker with Python handlers: `python examples/python_worker.py`, beside a scheduler.

curl -s localhost:8787/v1/jobs -H 'content-type: application/json' -d '{
  "schedule_expr": "every 10s", "payload": {"name": "you"},
  "target": {"type": "worker", "handler": "greet"}}'
"""

import logging
import time

from engine import Context, Fail, ThreadContext, Worker

worker = Worker(queues=["default"], concurrency=20)


@worker.handler()
async def greet(ctx: Context) -> None:
    name = ctx.payload.get("name")
    if not name:
        raise Fail("the payload has no name")  # trying again would not help
    receipt = await ctx.effect("greet", lambda: f"hello {name}, for {ctx.scheduled_for}")
    print(receipt, flush=True)


@worker.handler(default=True)
def report(ctx: ThreadContext) -> None:
    """A plain function runs in a thread of its own; this one looks up from time to time."""
    for part in range(ctx.payload.get("parts", 3)):
        if ctx.cancelled:
            return
        time.sleep(1)
        print(f"{ctx.execution_id}: part {part + 1}", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.main()
