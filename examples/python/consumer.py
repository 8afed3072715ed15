"""A consumer of one queue, by lua/README.md alone: nothing of Waterclock is imported.

    waterclock scripts export scripts
    python consumer.py redis://127.0.0.1:6379/0 mail scripts

(For handlers in Python there is `engine.Worker`, which does all this and more; this file shows what
a consumer in another language has to do.)
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

LEASE_MS, MAX_DELIVERIES, HISTORY, LEDGER = 10_000, 5, 50, 2_000
"""As the deployment is set: WATERCLOCK_EXECUTION_LEASE_MS, _MAX_DELIVERIES, _HISTORY_LIMIT and
_LEDGER_LIMIT."""


@dataclass(frozen=True)
class Delivery:
    """One entry as it was handed over. Entry, consumer and `deliveries` prove that it is ours."""

    tag: str
    stream: str
    entry: str
    deliveries: int
    fields: dict[str, str]
    started_at: int

    @property
    def execution_id(self) -> str:
        return self.fields["execution_id"]

    @property
    def nominal_at(self) -> int:
        return int(self.execution_id.partition("@")[2])

    @property
    def since(self) -> tuple[int, int]:
        """When the first attempt began, and how many attempts the retry policy is not to count."""
        began_at, _, base = self.fields.get("since", "").partition(".")
        return int(began_at or self.started_at), int(base or 0)

    @property
    def has_expired(self) -> bool:
        expires_at = self.fields.get("expires_at")
        return (
            self.deliveries == 1 and expires_at is not None and self.started_at >= int(expires_at)
        )

    @property
    def has_lapsed(self) -> bool:
        return self.fields.get("lapsed") == "1"

    @property
    def is_late(self) -> bool:
        return self.fields.get("lapsed") == "gated"


class Consumer:
    """Reads a queue under one name, and ends what it has read."""

    def __init__(self, url: str, queue: str, name: str, scripts: Path) -> None:
        self.client: Any = redis.Redis.from_url(url, decode_responses=True, retry=None)
        self.queue, self.name, self.scripts = queue, name, scripts
        self.streams = [f"{queue}:high", queue, f"{queue}:low"]
        self.manifest = json.loads((scripts / "scripts.json").read_text("utf-8"))
        layout = json.loads(self.client.get("wc:layout") or "{}")
        if layout["version"] != 2:
            raise SystemExit(f"layout version {layout['version']} is not known here")
        self.tags: list[str] = layout["tags"]

    # Scripts

    def run(self, script: str, keys: list[str], args: list[Any]) -> Any:
        """Return a script's reply. A server forgets scripts: load it then, and send again."""
        try:
            return self.client.evalsha(self.manifest[script]["sha"], len(keys), *keys, *args)
        except redis.exceptions.NoScriptError:
            sha = self.client.script_load((self.scripts / f"{script}.lua").read_text("utf-8"))
            return self.client.evalsha(sha, len(keys), *keys, *args)

    def _keys(self, tag: str, stream: str) -> list[str]:
        names = (f"ready:{stream}", "jobs", "buckets", "dead", "gates", "outbox", "ledger")
        return [f"wc:{{{tag}}}:{name}" for name in names]

    def _common(self, tag: str) -> list[Any]:
        prefixes = [f"wc:{{{tag}}}:{name}:" for name in ("job", "due", "runs", "letter", "inputs")]
        return [*prefixes, HISTORY, LEDGER]

    def now(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    # Taking

    def read(self, block_ms: int | None = None) -> list[Delivery]:
        """Return new deliveries of the most urgent stream that has any, one a shard at the most;
        none of a queue that is paused."""
        settings = json.loads(self.client.hget("wc:queues", self.queue) or "{}")
        if settings.get("paused"):
            return []
        for stream in self.streams:
            if found := self._read([stream], None):
                return found
        return self._read(self.streams, block_ms) if block_ms else []

    def _read(self, streams: list[str], block_ms: int | None) -> list[Delivery]:
        places = {f"wc:{{{tag}}}:ready:{s}": (tag, s) for s in streams for tag in self.tags}
        wanted: Any = dict.fromkeys(places, ">")
        try:
            reply = self.client.xreadgroup("workers", self.name, wanted, 1, block_ms)
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            for key in places:
                self._make_group(key)
            return self._read(streams, block_ms)
        now = self.now()
        rows = ((*places[key], *row) for key, entries in reply for row in entries)
        return [Delivery(tag, s, entry, 1, fields, now) for tag, s, entry, fields in rows]

    def _make_group(self, key: str) -> None:
        try:
            self.client.xgroup_create(key, "workers", "0", mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def reclaim(
        self, room: int = 1, lease_ms: int = LEASE_MS, max_deliveries: int = MAX_DELIVERIES
    ) -> tuple[list[Delivery], int]:
        """Return what others left, taken over; and how many were ended as poison."""
        found: list[Delivery] = []
        poisoned = 0
        for stream, tag in ((stream, tag) for stream in self.streams for tag in self.tags):
            cursor = "-"
            while cursor and len(found) < room:
                now = self.now()
                args = [self.name, now, stream, lease_ms, max_deliveries, cursor, 100]
                args += [room - len(found), *self._common(tag)]
                try:
                    reply = self.run("reclaim_executions", self._keys(tag, stream), args)
                except redis.ResponseError as error:
                    if "NOGROUP" not in str(error):
                        raise
                    break  # nobody has read this stream yet
                cursor, ended, *rows = reply
                poisoned += ended
                for entry, deliveries, flat in rows:
                    fields = dict(zip(flat[::2], flat[1::2], strict=True))
                    found.append(Delivery(tag, stream, entry, deliveries, fields, now))
        return found, poisoned

    # Holding and ending

    def heartbeat(self, delivery: Delivery) -> bool:
        """Extend a lease; return False if it is lost: what is being done is to be stopped."""
        key = self._keys(delivery.tag, delivery.stream)[:1]
        [held] = self.run(
            "heartbeat_executions", key, [self.name, delivery.entry, delivery.deliveries]
        )
        return bool(held)

    def succeed(self, delivery: Delivery, result: str = "") -> str:
        """End an attempt well; `result` is JSON for the jobs that depend on this one."""
        return self._end(delivery, "succeeded", result=result)

    def skip(self, delivery: Delivery) -> str:
        """End a delivery that comes too late to be started."""
        reason = "upstream_late" if delivery.is_late else "expired"
        return self._end(delivery, "skipped", error=reason)

    def fail(self, delivery: Delivery, error: str, *, final: bool = False) -> str:
        """End a failed attempt: another one follows, as the job's retry policy says, or none."""
        retry = json.loads(delivery.fields.get("retry", "{}"))
        began_at, base = delivery.since
        now = self.now()
        attempt = int(delivery.fields["attempt"]) - base
        wait_ms = None if final else next_wait_ms(retry, attempt, now - began_at)
        if wait_ms is None:
            return self._end(delivery, "dead", "final" if final else "exhausted", error=error)
        since = f"{began_at}.{base}"
        return self._end(delivery, "failed", str(now + wait_ms), since, error)

    def _end(
        self,
        delivery: Delivery,
        outcome: str,
        detail: str = "",
        since: str = "",
        error: str = "",
        result: str = "",
    ) -> str:
        """Return `done`, `already` or `stale`. Sending the same again is safe."""
        now, at = self.now(), delivery.nominal_at
        fields = delivery.fields
        if outcome == "skipped":
            record: list[Any] = [at, "skipped", at, 1, 1, error]
        else:
            record = [at, outcome, int(fields["attempt"]), delivery.deliveries, self.name]
            record += [delivery.started_at - at, now - delivery.started_at]
            record += [None, error[:2048]] if error else []
        [word] = self.run(
            "complete_executions",
            self._keys(delivery.tag, delivery.stream),
            [
                *(self.name, now, delivery.stream, *self._common(delivery.tag)),
                *(delivery.entry, delivery.deliveries, delivery.execution_id, fields["attempt"]),
                *(outcome, detail, since, json.dumps(record, separators=(",", ":")), result),
            ],
        )
        return str(word)

    def hand_back(self, delivery: Delivery) -> bool:
        """Give back a delivery that was not started; return False if it is somebody else's."""
        prefix = f"wc:{{{delivery.tag}}}:"
        keys = [f"{prefix}ready:{delivery.stream}", f"{prefix}buckets", f"{prefix}gates"]
        proof = [delivery.entry, delivery.deliveries, delivery.execution_id]
        args = [self.name, f"{prefix}job:", f"{prefix}due:", "", *proof, delivery.fields["attempt"]]
        return bool(self.run("hand_back_executions", keys, args)[0])

    def effect(self, delivery: Delivery, name: str, result: str) -> str:
        """Record what a side effect gave, once; return what stands. Raises if the lease is lost."""
        keys = [f"wc:{{{delivery.tag}}}:ready:{delivery.stream}"]
        keys += [f"wc:{{{delivery.tag}}}:effects:{delivery.execution_id}"]
        args = [delivery.entry, self.name, delivery.deliveries, name, result, 7 * 86_400_000]
        return str(self.run("record_effect", keys, args))

    def leave(self) -> int:
        """Take the name off the groups, where it holds nothing; return off how many."""
        keys = [f"wc:{{{tag}}}:ready:{s}" for s in self.streams for tag in self.tags]
        return sum(self.run("forget_consumers", [key], [0, self.name]) for key in keys)


def next_wait_ms(retry: dict[str, Any], attempt: int, elapsed_ms: int) -> int | None:
    """Return how long to wait after an attempt failed, None if no further one may begin."""
    if attempt >= retry.get("max_attempts", 3):
        return None
    base_ms, max_ms = retry.get("base_ms", 1_000), retry.get("max_ms", 3_600_000)
    waits = retry.get("waits_ms", [])
    match retry.get("backoff", "exponential"):
        case "linear":
            wait_ms = base_ms * attempt
        case "fixed":
            wait_ms = base_ms
        case "list":
            wait_ms = waits[min(attempt, len(waits)) - 1]
        case _:
            wait_ms = base_ms << (attempt - 1)
    wait_ms = min(wait_ms, max_ms)
    match retry.get("jitter", "equal"):
        case "equal":
            wait_ms = random.randint(wait_ms // 2, wait_ms)
        case "full":
            wait_ms = random.randint(0, wait_ms)
        case "decorrelated":
            wait_ms = base_ms
            for _ in range(attempt):
                wait_ms = min(max_ms, random.randint(base_ms, 3 * wait_ms))
    begins_ms = elapsed_ms + wait_ms
    if begins_ms > retry.get("max_elapsed_ms", begins_ms):
        return None
    return None if begins_ms >= retry.get("deadline_ms", begins_ms + 1) else wait_ms


class Work:
    """Runs deliveries one by one, keeps the leases of all it has, and gives back what it has not
    started when it is stopped."""

    def __init__(self, consumer: Consumer, handle: Callable[[Delivery], None]) -> None:
        self.consumer, self.handle = consumer, handle
        self.held: list[Delivery] = []
        self.stop, self._is_over = threading.Event(), threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()
        while not self.stop.is_set():
            self.held = self.consumer.reclaim()[0] or self.consumer.read(block_ms=500)
            if not self.held:
                self.stop.wait(0.1)
            while self.held and not self.stop.is_set():
                print(f"{self.held[0].execution_id}: {self._run(self.held[0])}", flush=True)
                del self.held[:1]
        for delivery in self.held:
            self.consumer.hand_back(delivery)
        self.consumer.leave()
        self._is_over.set()

    def _run(self, delivery: Delivery) -> str:
        if delivery.has_lapsed:
            return self.consumer.fail(delivery, "timeout: the target fell silent")
        if delivery.is_late or delivery.has_expired:
            return self.consumer.skip(delivery)
        try:
            self.handle(delivery)
        except Exception as error:
            return self.consumer.fail(delivery, f"{type(error).__name__}: {error}")
        return self.consumer.succeed(delivery)

    def _beat(self) -> None:
        while not self._is_over.wait(LEASE_MS / 3000):
            for delivery in self.held[:]:
                # What is lost is told by `stale` when it ends; a handler that can be stopped would
                # be stopped here.
                self.consumer.heartbeat(delivery)


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit("usage: consumer.py REDIS_URL QUEUE SCRIPTS")
    url, queue, scripts = sys.argv[1:]
    # Handlers must stand being called twice: the execution id is the key by which to know.
    work = Work(
        Consumer(url, queue, "python-1", Path(scripts)),
        lambda delivery: print(f"{delivery.execution_id}: {delivery.fields['payload']}"),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: work.stop.set())
    work.run()


if __name__ == "__main__":
    main()
