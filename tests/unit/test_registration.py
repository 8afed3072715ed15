"""Registration: from what a user asks for to a job that can be stored."""

from __future__ import annotations

import pytest

from engine.errors import BadExpression, BadInput
from engine.model import HttpTarget, JobState, Target, WorkerTarget
from engine.plan import Misfire
from engine.registration import Registration, register

NOW = 1_800_000_000_000  # 2027-01-15T08:00:00Z
HTTP = HttpTarget("https://a.test/x")


def asked(
    schedule_expr: str | None = None, *, timezone: str = "UTC", job_id: str | None = "a"
) -> Registration:
    return register(
        now=NOW, target=HTTP, job_id=job_id, schedule_expr=schedule_expr, timezone=timezone
    )


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
    assert (job.anchor_at, job.next_run_at) == (NOW, NOW + 90_000)


def test_a_one_off_has_its_time() -> None:
    job = asked("2027-01-15T08:00:01.5Z").job
    assert (job.anchor_at, job.next_run_at) == (NOW + 1_500, NOW + 1_500)


def test_jobs_that_ask_for_the_same_share_a_plan() -> None:
    one, two = asked("0 9 * * *", job_id="a"), asked(" 0  9 * * *", job_id="b")
    assert one.job.plan_id == two.job.plan_id == one.plan.id
    other = register(now=NOW, target=HTTP, schedule_expr="0 9 * * *", misfire=Misfire("skip"))
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
        (HTTP, "slow", "slow"),
        (WorkerTarget(), "mail", "mail"),
        (HTTP, "http", "http"),
    ],
)
def test_a_target_goes_to_its_queue(target: Target, queue: str | None, wanted: str) -> None:
    assert register(now=NOW, target=target, queue=queue).job.queue == wanted


def test_a_worker_target_cannot_go_where_only_http_is_run() -> None:
    with pytest.raises(BadInput, match="http targets") as refusal:
        register(now=NOW, target=WorkerTarget(), queue="http")
    assert refusal.value.field == "queue"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"job_id": "a b"}, "job_id"),
        ({"job_id": ""}, "job_id"),
        ({"queue": "a:b"}, "queue"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"schedule_expr": "2027-01-15T08:00:00Z"}, "schedule_expr"),
    ],
)
def test_what_is_wrong_is_refused_naming_the_field(wrong: dict[str, str], field: str) -> None:
    with pytest.raises(BadInput) as refusal:
        register(now=NOW, target=HTTP, **wrong)  # type: ignore[arg-type]
    assert refusal.value.field == field


def test_an_expression_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadExpression):
        asked("61 * * * *")
