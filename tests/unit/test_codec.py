"""The codec: what goes into Redis comes back, and what comes from outside is checked."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hashing import DEFINED, hash_of

from engine import codec
from engine.backoff import Retry
from engine.codec import Promise
from engine.depends import Condition, Depends, Join, Match, Upstream
from engine.errors import BadInput, Expired
from engine.execution import (
    DeadLetter,
    DeadReason,
    Delivery,
    LiveExecution,
    Outcome,
    Record,
    SkipReason,
    SkipRecord,
)
from engine.keys import LAYOUT_VERSION, Layout, spread_tags
from engine.model import HttpTarget, Job, Overlap, Rules, ShellTarget, Target, WorkerTarget
from engine.names import Priority
from engine.scripts import FOLDER

NOW = 1_800_000_000_000

JOB = Job(
    id="a",
    plan_id="p",
    target=WorkerTarget(),
    queue="default",
    created_at=NOW,
    anchor_at=NOW + 1,
    schedule_expr="0 9 * * *",
    timezone="Europe/Rome",
    payload=b"\x00\xff",
    retry=Retry(max_attempts=5),
    next_run_at=NOW + 2,
)

DELIVERY = Delivery(
    shard=3,
    queue="default",
    entry_id="1-0",
    consumer="w1",
    deliveries=2,
    execution_id=f"a@{NOW}",
    attempt=1,
    due_at=NOW,
    target=b'{"type":"worker"}',
    payload=b"null",
    retry=b'{"max_attempts":5}',
)

RECORD = Record(NOW, Outcome.SUCCEEDED, 1, 1, "w1", NOW + 12, 40)


@pytest.mark.parametrize(
    "target",
    [
        WorkerTarget(),
        HttpTarget("https://a.test/x"),
        HttpTarget("https://a.test/x", {"X-Key": "1"}, timeout_ms=500),
        HttpTarget("https://a.test/x", respond_async=True, heartbeat_ms=5),
        WorkerTarget("send", timeout_ms=5),
        ShellTarget("ls"),
        ShellTarget("ls", cwd="/tmp", env={"A": "1"}, stdin="x", user="nobody", timeout_ms=5),
    ],
)
def test_a_target_comes_back(target: Target) -> None:
    assert codec.load_target(codec.dump_target(target)) == target


@pytest.mark.parametrize(
    ("target", "data"),
    [
        (WorkerTarget(), b'{"type":"worker"}'),
        (ShellTarget("ls"), b'{"type":"shell","command":"ls"}'),
        (
            HttpTarget("https://a.test", {"url": "https://b.test"}),
            b'{"type":"http","url":"https://a.test","headers":{"url":"https://b.test"}}',
        ),
    ],
)
def test_a_target_stores_its_type_first_and_no_defaults(target: Target, data: bytes) -> None:
    """lua/lib/gates.lua finds the host of an http target at the start of its text."""
    assert codec.dump_target(target) == data


@pytest.mark.parametrize("retry", [Retry(), Retry(max_attempts=1), Retry(jitter="full")])
def test_a_retry_policy_comes_back(retry: Retry) -> None:
    assert codec.load_retry(codec.dump_retry(retry)) == retry


def test_the_default_retry_policy_costs_nothing() -> None:
    assert codec.dump_retry(Retry()) == b""


ALL_RULES = Rules(
    3,
    expires_after_ms=5,
    pause_after_failures=2,
    delete_after_completion=True,
    concurrency=4,
)


def test_the_values_of_a_definition_are_written_under_these_names() -> None:
    source = (FOLDER / "lib" / "job.lua").read_text("utf-8")
    [names] = re.findall(r"local DEFINED = \{([^}]*)\}", source)
    assert re.findall(r"'(\w+)'", names) == DEFINED


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, next_run_at=None, schedule_expr=None),
        replace(JOB, dialect="quartz", overlap=Overlap.QUEUE_ALL),
        replace(JOB, rules=ALL_RULES, runs_left=3),
        replace(JOB, rules=Rules(max_runs=3), runs_left=1),
        replace(JOB, rules=Rules(concurrency=2)),
        *(replace(JOB, priority=priority, group="blue") for priority in Priority),
        replace(JOB, depends=Depends((Upstream("a"),))),
        replace(
            JOB,
            depends=Depends(
                tuple(Upstream(f"s{condition}.a:b", condition) for condition in Condition),
                Join.ANY,
                Match.LATEST,
            ),
        ),
        replace(JOB, depends=Depends((Upstream("a"),), gate_ms=5)),
    ],
)
def test_a_job_comes_back(job: Job) -> None:
    assert codec.load_job("a", hash_of(job)) == job


@pytest.mark.parametrize(
    ("overlap", "rules", "has_rules"),
    [
        (Overlap.SKIP, Rules(), False),
        (Overlap.ALLOW, Rules(), False),
        (Overlap.QUEUE_ONE, Rules(), True),
        (Overlap.REPLACE, Rules(), True),
        (Overlap.AFTER_SUCCESS, Rules(), True),
        (Overlap.SKIP, Rules(max_runs=1), True),
        (Overlap.SKIP, Rules(delete_after_completion=True), True),
        (Overlap.SKIP, Rules(concurrency=2), True),
    ],
)
def test_only_a_job_that_asks_for_more_is_looked_at_twice(
    overlap: Overlap, rules: Rules, has_rules: bool
) -> None:
    fields = hash_of(replace(JOB, overlap=overlap, rules=rules))
    assert codec.load_head(fields[b"head"]).has_rules is has_rules


def test_what_befell_a_job_is_read_from_itshash_of() -> None:
    note = codec.dump_note("ops", NOW, "quiet\nday")
    assert b"\n" not in note
    more = {b"version": b"7", b"failures": b"2", b"queued": b"5 6", b"pause_note": note}
    job = codec.load_job("a", {**hash_of(JOB), **more})
    assert (job.version, job.failures, job.queued) == (7, 2, (5, 6))
    assert job.pause_note == {"by": "ops", "at": NOW, "note": "quiet\nday"}


def test_live_executions_are_read_from_a_jobs_hash_oldest_first() -> None:
    fields = {
        b"state": b"active",
        b"x:20": b"ready:1:5-1",
        b"x:3": b"due:2:99",
        b"x:5": b"async:3:98:7.2;q/default",
        b"x:4": b"ready:1:5-0;q/default,h/a.test:8080",
        b"b:4": b"1",
    }
    assert codec.load_live(fields) == [
        LiveExecution(3, 2, due_at=99),
        LiveExecution(4, 1, entry_id="5-0"),
        LiveExecution(5, 3, due_at=98, is_accepted=True),
        LiveExecution(20, 1, entry_id="5-1"),
    ]


@pytest.mark.parametrize(
    ("place", "since"),
    [
        (b"", (None, 0)),
        (b"due:1:99", (None, 0)),
        (b"ready:1:5-1;h/a.test:8080", (None, 0)),
        (b"due:2:99:17.0", (17, 0)),
        (b"due:4:99:.3", (None, 3)),
        (b"ready:5:5-1:17.3;q/default", (17, 3)),
    ],
)
def test_since_is_when_the_first_attempt_began_and_how_many_do_not_count(
    place: bytes, since: tuple[int | None, int]
) -> None:
    assert codec.load_since(place) == since


@pytest.mark.parametrize(
    ("record", "packed"),
    [
        (RECORD, [NOW, "succeeded", 1, 1, "w1", 12, 40]),
        (replace(RECORD, status_code=204), [NOW, "succeeded", 1, 1, "w1", 12, 40, 204]),
        (replace(RECORD, error="no"), [NOW, "succeeded", 1, 1, "w1", 12, 40, None, "no"]),
        (
            replace(RECORD, outcome=Outcome.FAILED, exit_status=1, output="no\n"),
            [NOW, "failed", 1, 1, "w1", 12, 40, None, None, 1, "no\n"],
        ),
        (
            SkipRecord(1, 5, 3, SkipReason.CALENDAR, detail="bank: it"),
            [1, "skipped", 5, 3, 1, "calendar: bank: it"],
        ),
        (SkipRecord(1, 5, 3, SkipReason.LATE), [1, "skipped", 5, 3, 1, "late"]),
        (SkipRecord(1, 5, 3, SkipReason.PAUSED, exact=False), [1, "skipped", 5, 3, 0, "paused"]),
    ],
)
def test_a_record_is_a_short_array_and_comes_back(
    record: Record | SkipRecord, packed: list[object]
) -> None:
    data = codec.dump_record(record)
    assert orjson.loads(data) == packed
    assert codec.load_record(data) == record


def test_a_record_begins_as_the_script_that_looks_for_it_expects() -> None:
    """complete_executions compares this text: order and spacing are the wire contract."""
    assert codec.dump_record(RECORD).startswith(b'[%d,"succeeded",1,1,"w1",' % NOW)


@pytest.mark.parametrize("status_code", [None, 200])
@pytest.mark.parametrize("worker", ["w1", 'a "b"\\c', "é\n", ""])
@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_record_without_an_error_is_the_same_json_as_any_other(
    outcome: Outcome, worker: str, status_code: int | None
) -> None:
    record = Record(NOW, outcome, 2, 3, worker, NOW - 5, 70, status_code)
    row = [NOW, outcome, 2, 3, worker, -5, 70, status_code]
    assert codec.dump_record(record) == orjson.dumps(row[:7] if status_code is None else row)


def test_a_long_error_is_cut() -> None:
    record = codec.load_record(codec.dump_record(replace(RECORD, error="x" * 10_000)))
    assert isinstance(record, Record)
    assert record.error == "x" * codec.MAX_ERROR_CHARS


def test_a_ledger_entry_has_a_line_an_event() -> None:
    data = b'["created","a"]\n["fired","a@1",1,1,"q"]'
    assert codec.load_events(data) == [["created", "a"], ["fired", "a@1", 1, 1, "q"]]


def test_a_records_error_stays_on_its_line() -> None:
    assert b"\n" not in codec.dump_record(replace(RECORD, error="two\nlines"))


def test_a_delivery_is_read_from_a_streams_entry() -> None:
    fields = {
        b"execution_id": f"a@{NOW}".encode(),
        b"attempt": b"1",
        b"due_at": str(NOW).encode(),
        b"target": DELIVERY.target,
        b"payload": DELIVERY.payload,
        b"retry": DELIVERY.retry,
    }
    assert codec.load_delivery(3, "default", b"1-0", "w1", 2, fields) == DELIVERY
    fields[b"expires_at"] = b""
    assert codec.load_delivery(3, "default", b"1-0", "w1", 2, fields) == DELIVERY
    fields[b"expires_at"] = b"17"
    expiring = codec.load_delivery(3, "default", b"1-0", "w1", 2, fields)
    assert expiring == replace(DELIVERY, expires_at=17)
    fields |= {b"since": b"15.2", b"lapsed": b"1", b"expires_at": b""}
    lapsed = codec.load_delivery(3, "default", b"1-0", "w1", 2, fields)
    assert lapsed == replace(DELIVERY, began_at=15, base=2, lapsed=True)


def test_a_dead_letter_is_read_with_its_attempts_newest_first() -> None:
    failed = replace(RECORD, outcome=Outcome.FAILED)
    dead = replace(RECORD, outcome=Outcome.DEAD, attempt=2)
    fields = {
        b"reason": b"final",
        b"attempt": b"2",
        b"queue": b"mail:high",
        b"target": DELIVERY.target,
        b"payload": b"\xff",
        b"retry": b"",
        b"attempts": codec.dump_record(dead) + b"\n" + codec.dump_record(failed),
        b"born": b"5",
    }
    assert codec.load_letter(f"a@{NOW}", NOW + 5, fields) == DeadLetter(
        execution_id=f"a@{NOW}",
        died_at=NOW + 5,
        reason=DeadReason.FINAL,
        attempt=2,
        queue="mail:high",
        target=DELIVERY.target,
        payload=b"\xff",
        attempts=(dead, failed),
    )


PROMISE = Promise(f"a@{NOW}", 2, NOW + 5, NOW + 99)
KEY = b"k" * 32


def test_a_promise_comes_back_until_it_expires() -> None:
    word = codec.dump_promise(PROMISE, KEY)
    assert word.replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert codec.load_promise(word, KEY, NOW + 98) == PROMISE
    with pytest.raises(Expired):
        codec.load_promise(word, KEY, NOW + 99)


WORD = codec.dump_promise(PROMISE, KEY)
FORGED = codec.dump_promise(replace(PROMISE, attempt=3), b"x" * 32)


@pytest.mark.parametrize(
    "word",
    [
        "",
        "x",
        "é.é",
        "a.b.c",
        WORD + "A",
        WORD.partition(".")[0],
        FORGED,
        FORGED.partition(".")[0] + "." + WORD.partition(".")[2],
    ],
)
def test_a_word_that_was_not_signed_here_is_no_promise(word: str) -> None:
    with pytest.raises(BadInput, match="no URL"):
        codec.load_promise(word, KEY, NOW)


@pytest.mark.parametrize("retry", [b"", DELIVERY.retry])
@pytest.mark.parametrize(("began_at", "base"), [(None, 0), (NOW + 3, 2)])
def test_a_lease_carries_the_proof_of_a_delivery(
    retry: bytes, began_at: int | None, base: int
) -> None:
    delivery = replace(DELIVERY, retry=retry, began_at=began_at, base=base)
    lease = codec.dump_lease(delivery)
    assert lease.replace("-", "").replace("_", "").isalnum()
    assert codec.load_lease(lease) == replace(delivery, target=b"", payload=b"")


def _lease(change: Callable[[list[Any]], object]) -> str:
    proof: list[Any] = orjson.loads(base64.urlsafe_b64decode(codec.dump_lease(DELIVERY) + "=="))
    change(proof)
    return base64.urlsafe_b64encode(orjson.dumps(proof)).decode().rstrip("=")


def test_a_lease_taken_apart_and_put_together_is_one() -> None:
    assert _lease(lambda proof: None) == codec.dump_lease(DELIVERY)


@pytest.mark.parametrize(
    "lease",
    [
        "",
        "x",
        "é",
        "bm8",
        _lease(lambda proof: proof.pop()),
        _lease(lambda proof: proof.append(1)),
        _lease(lambda proof: proof.__setitem__(0, "3")),
        _lease(lambda proof: proof.__setitem__(0, True)),
        _lease(lambda proof: proof.__setitem__(8, {"max_attempts": 0})),
        _lease(lambda proof: proof.__setitem__(8, [1])),
        _lease(lambda proof: proof.__setitem__(9, "5")),
        _lease(lambda proof: proof.__setitem__(10, None)),
    ],
)
def test_what_is_no_lease_is_refused(lease: str) -> None:
    with pytest.raises(BadInput, match="no lease") as refusal:
        codec.load_lease(lease)
    assert refusal.value.field == "lease"


def test_a_layout_comes_back_with_its_version() -> None:
    layout = Layout(spread_tags(4))
    assert codec.load_layout(codec.dump_layout(layout)) == (LAYOUT_VERSION, layout)


def test_a_layout_says_in_words_how_ids_are_hashed() -> None:
    fields = orjson.loads(codec.dump_layout(Layout(("a", "b"))))
    assert fields == {"version": LAYOUT_VERSION, "hash": "crc32", "tags": ["a", "b"]}
