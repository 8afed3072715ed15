"""Registration: from what a user asks for to a job that can be stored."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import BadExpression, BadInput
from engine.model import (
    HttpTarget,
    JobState,
    Overlap,
    Rules,
    ShellTarget,
    Target,
    WorkerTarget,
)
from engine.names import Priority
from engine.plan import Misfire
from engine.registration import Registration, Timing, is_alike, register

NOW = 1_800_000_000_000  # 2027-01-15T08:00:00Z
MINUTE, HOUR = 60_000, 3_600_000
HTTP = HttpTarget("https://a.test/x")
SHELL = ShellTarget("true")


def asked(
    schedule_expr: str | None = None, *, timezone: str = "UTC", job_id: str | None = "a"
) -> Registration:
    return register(now=NOW, target=HTTP, job_id=job_id, timing=Timing(schedule_expr, timezone))


@pytest.mark.parametrize(
    "timing",
    [
        Timing(),
        Timing("0 9 * * 1-5"),
        Timing("every 1h", window_ms=HOUR),
        Timing(("@daily", "every 1h")),
        Timing("2030-01-31T09:00:00Z"),
        Timing("*-*-* 09:00", dialect="systemd"),
    ],
)
def test_jobs_that_differ_in_id_and_payload_alone_are_usually_alike(timing: Timing) -> None:
    assert is_alike(register(now=NOW, target=HTTP, job_id="a", timing=timing))


@pytest.mark.parametrize(
    ("timing", "target"),
    [
        (Timing("H * * * *", dialect="jenkins"), HTTP),
        (Timing("0~59 * * * *", dialect="vixie"), HTTP),
        (Timing(("@daily", "H * * * *"), dialect="jenkins"), HTTP),
        (Timing("@daily"), HttpTarget("https://a.test/{{job_id}}", template=True)),
        (Timing("@daily"), HttpTarget("https://a.test/x", signing="job")),
    ],
)
def test_jobs_of_which_more_is_looked_at_are_not_alike(timing: Timing, target: Target) -> None:
    assert not is_alike(register(now=NOW, target=target, job_id="a", timing=timing))


def test_jobs_on_one_cron_schedule_share_the_plan_itself() -> None:
    one, two = asked("0 9 * * *", job_id="a"), asked("0 9 * * *", job_id="b")
    assert one.plan is two.plan
    assert asked("0 9 * * *", timezone="Asia/Tokyo").plan != one.plan


def test_without_a_schedule_a_job_runs_at_once_and_is_completed() -> None:
    found = asked()
    assert found.run_at == NOW
    assert found.job.next_run_at is None
    assert found.job.state is JobState.COMPLETED


def test_a_cron_job_first_fires_at_its_next_time_in_its_zone() -> None:
    found = asked("30 9 * * *", timezone="Europe/Rome")
    assert found.job.next_run_at == NOW + 30 * 60_000
    assert found.job.state is JobState.ACTIVE
    assert found.run_at is None


def test_a_cron_time_that_is_now_has_passed() -> None:
    assert asked("0 8 * * *").job.next_run_at == NOW + 24 * 3_600_000


def test_an_interval_counts_from_now() -> None:
    job = asked("every 90s").job
    assert (job.anchor_at, job.next_run_at) == (NOW + 90_000, NOW + 90_000)


def test_a_one_off_has_its_time() -> None:
    job = asked("2027-01-15T08:00:01.5Z").job
    assert (job.anchor_at, job.next_run_at) == (NOW + 1_500, NOW + 1_500)


def test_jobs_that_ask_for_the_same_share_a_plan() -> None:
    one, two = asked("0 9 * * *", job_id="a"), asked(" 0  9 * * *", job_id="b")
    assert one.job.plan_id == two.job.plan_id == one.plan.id
    other = register(now=NOW, target=HTTP, timing=Timing("0 9 * * *", misfire=Misfire("skip")))
    assert other.plan.id != one.plan.id


def test_a_job_without_an_id_gets_one_of_its_own() -> None:
    one, two = asked(job_id=None).job.id, asked(job_id=None).job.id
    assert one != two
    assert one.startswith("job-")


@pytest.mark.parametrize(
    ("target", "queue", "wanted"),
    [
        (HTTP, None, "http"),
        (WorkerTarget(), None, "default"),
        (SHELL, None, "shell"),
        (SHELL, "shell", "shell"),
        (SHELL, "slow", "slow"),
        (HTTP, "slow", "slow"),
        (WorkerTarget(), "mail", "mail"),
        (HTTP, "http", "http"),
    ],
)
def test_a_target_goes_to_its_queue(target: Target, queue: str | None, wanted: str) -> None:
    assert register(now=NOW, target=target, queue=queue).job.queue == wanted


@pytest.mark.parametrize(
    ("target", "queue"),
    [
        (WorkerTarget(), "http"),
        (WorkerTarget(), "shell"),
        (SHELL, "http"),
        (HTTP, "shell"),
    ],
)
def test_a_target_cannot_go_to_the_queue_of_another_kind(target: Target, queue: str) -> None:
    with pytest.raises(BadInput, match=f"kept for {queue} targets") as refusal:
        register(now=NOW, target=target, queue=queue)
    assert refusal.value.field == "queue"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"job_id": "a b"}, "job_id"),
        ({"job_id": ""}, "job_id"),
        ({"queue": "a:b"}, "queue"),
        ({"timing": Timing(timezone="Mars/Olympus")}, "timezone"),
        ({"timing": Timing("2027-01-15T08:00:00Z")}, "schedule_expr"),
        ({"timing": Timing("0 9 * * *", dialect="latin")}, "dialect"),
        ({"timing": Timing("every 5m", window_ms=-1)}, "window_ms"),
        ({"timing": Timing(start_at=NOW)}, "start_at"),
        ({"timing": Timing("2028-01-15T08:00:00Z", end_at=NOW)}, "end_at"),
        ({"timing": Timing("2028-01-15T08:00:00Z", window_ms=1)}, "window_ms"),
        ({"timing": Timing("every 5m", start_at=NOW + 1, end_at=NOW)}, "end_at"),
        ({"timing": Timing("every 5m", end_at=NOW)}, "end_at"),
        ({"timing": Timing("every 5m", end_at=NOW + 299_999)}, "end_at"),
        ({"timing": Timing("0 9 * * *", end_at=NOW + 3_599_999)}, "end_at"),
    ],
)
def test_what_is_wrong_is_refused_naming_the_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refusal:
        register(now=NOW, target=HTTP, **wrong)
    assert refusal.value.field == field


def test_an_expression_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadExpression):
        asked("61 * * * *")


def timed(expr: str, **more: Any) -> Registration:
    return register(now=NOW, target=HTTP, job_id="a", timing=Timing(expr, **more))


@pytest.mark.parametrize(
    ("start_at", "first_at"),
    [
        pytest.param(NOW + 20 * MINUTE, NOW + 20 * MINUTE, id="ahead"),
        pytest.param(NOW - 20 * MINUTE, NOW + 40 * MINUTE, id="in the past"),
        pytest.param(NOW, NOW + 60 * MINUTE, id="now"),
    ],
)
def test_an_interval_counts_from_its_start(start_at: int, first_at: int) -> None:
    job = timed("every 1h", start_at=start_at).job
    assert (job.anchor_at, job.next_run_at) == (start_at, first_at)


def test_a_cron_job_waits_for_its_start() -> None:
    assert timed("0 9 * * *", start_at=NOW + 2 * HOUR).job.next_run_at == NOW + 25 * HOUR


def test_an_end_that_is_the_first_time_lets_it_fire_once() -> None:
    found = timed("every 5m", end_at=NOW + 5 * MINUTE)
    assert found.job.next_run_at == NOW + 5 * MINUTE
    assert found.plan.first_after(NOW + 5 * MINUTE, NOW + 5 * MINUTE) is None


def test_a_job_is_due_at_its_place_in_the_window() -> None:
    found = timed("0 9 * * *", window_ms=10 * MINUTE)
    offset_ms = found.plan.offset_of("a")
    assert 0 < offset_ms < 10 * MINUTE
    assert found.job.next_run_at == NOW + HOUR + offset_ms


def test_what_a_job_asks_for_is_in_its_definition() -> None:
    rules = Rules(max_runs=3, expires_after_ms=5, pause_after_failures=2)
    job = register(
        now=NOW, target=HTTP, timing=Timing("every 5m"), overlap=Overlap.REPLACE, rules=rules
    ).job
    assert (job.overlap, job.rules) == (Overlap.REPLACE, rules)


def test_priority_and_group_are_the_jobs() -> None:
    job = register(now=NOW, target=HTTP, priority=Priority.HIGH, group="acme").job
    assert (job.priority, job.group, job.stream) == (Priority.HIGH, "acme", "http:high")


@pytest.mark.parametrize("group", ["", "a/b", "a b", "x" * 65])
def test_a_group_that_cannot_be_one_is_refused(group: str) -> None:
    with pytest.raises(BadInput) as refusal:
        register(now=NOW, target=HTTP, group=group)
    assert refusal.value.field == "group"


@pytest.mark.parametrize("overlap", Overlap)
def test_concurrency_goes_with_the_overlap_policies_that_count(overlap: Overlap) -> None:
    def asked(concurrency: int) -> Rules:
        rules = Rules(concurrency=concurrency)
        return register(now=NOW, target=HTTP, overlap=overlap, rules=rules).job.rules

    assert asked(1) == Rules()
    if overlap in (Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL):
        assert asked(2).concurrency == 2
        return
    with pytest.raises(BadInput, match="does not count") as refusal:
        asked(2)
    assert refusal.value.field == "concurrency"
