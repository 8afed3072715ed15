"""Kubernetes: CronJobs, as pods for a worker and as commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading import noted, only, read, reason, sample


def cron_job(
    pod: dict[str, Any] | None = None, job: dict[str, Any] | None = None, **spec: Any
) -> str:
    pods = pod or {"containers": [{"name": "a", "image": "b", "command": ["c"]}]}
    template = {"spec": {"template": {"spec": pods}, **(job or {})}}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "it"},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": template, **spec},
        }
    )


def test_a_cron_job_is_a_job_that_gets_its_pod_template() -> None:
    found = sample("kubernetes", "kubernetes.yaml")
    backup, ping = found.drafts
    body = dict(backup.body)
    payload = body.pop("payload")
    assert body == {
        "job_id": "shop.db-backup",
        "schedule_expr": "15 3 * * *",
        "dialect": "k8s",
        "timezone": "Europe/Zurich",
        "overlap": "skip",
        "misfire": {"policy": "skip", "grace_ms": 600_000},
        "group": "shop",
        "tags": ["app-shop", "app.kubernetes.io-component-backup-6bf91b"],
        "retry": {
            "max_attempts": 3,
            "base_ms": 10_000,
            "max_ms": 360_000,
            "deadline_ms": 1_800_000,
        },
        "target": {"type": "worker", "handler": "shop/db-backup"},
    }
    assert payload["pod"]["spec"]["containers"][0]["image"] == "registry.example.com/backup:1.4"
    assert backup.paused
    assert ping.body["retry"]["max_attempts"] == 7
    assert [refusal.place for refusal in found.refusals] == ["object 4, never"]
    assert [note.value for note in found.notes] == ["ConfigMap backup"]


def test_with_shell_a_container_is_a_command() -> None:
    found = sample("kubernetes", "kubernetes.yaml", shell=True)
    (backup,) = found.drafts
    assert backup.body["target"] == {
        "type": "shell",
        "command": """/bin/sh -c 'pg_dump "$DATABASE" | gzip > /backup/$(date +%F).gz'""",
        "cwd": "/srv",
        "env": {"DATABASE": "shop"},
    }
    assert "payload" not in backup.body
    place = "spec.jobTemplate.spec.template.spec.containers[0]"
    assert {f"{place}.image", f"{place}.env[1]", f"{place}.envFrom"} <= noted(backup).keys()
    assert f"{place}.args" not in noted(backup)
    assert "command is missing" in found.refusals[0].reason


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        ({"containers": [{"command": ["a"]}, {"command": ["b"]}]}, "a command is one container"),
        (
            {"containers": [{"command": ["a"]}], "initContainers": [{"command": ["b"]}]},
            "a command is one container",
        ),
        ({"containers": []}, "there is nothing to run"),
        ({"containers": [{"command": ["a"], "env": [{"value": "1"}]}]}, "env[0].name is missing"),
    ],
)
def test_a_pod_that_is_no_command_is_refused(pod: dict[str, Any], why: str) -> None:
    assert why in reason(read("kubernetes", cron_job(pod), shell=True))


def test_a_reference_to_a_variable_is_noted() -> None:
    pod = {"containers": [{"command": ["echo", "$(NAME)"]}]}
    draft = only(read("kubernetes", cron_job(pod), shell=True))
    assert "spec.jobTemplate.spec.template.spec.containers[0].args" in noted(draft)


@pytest.mark.parametrize(
    ("policy", "overlap"),
    [(None, "allow"), ("Allow", "allow"), ("Forbid", "skip"), ("Replace", "replace")],
)
def test_a_policy_is_an_overlap(policy: str | None, overlap: str) -> None:
    text = cron_job(concurrencyPolicy=policy)
    assert only(read("kubernetes", text)).body["overlap"] == overlap


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (cron_job(schedule="61 * * * *"), "minute: '61'"),
        (cron_job(schedule="0 0 * * 7"), "day of week: '7'"),
        (cron_job(concurrencyPolicy="Sometimes"), "Allow, Forbid, Replace"),
        (cron_job(startingDeadlineSeconds=-1), "0 or more"),
        (cron_job(job={"activeDeadlineSeconds": 0}), "more than 0"),
        (cron_job(timeZone="Mars/Base"), "unknown timezone"),
        ("- 1", "must be a mapping"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(text: str, why: str) -> None:
    assert why in reason(read("kubernetes", text))


def test_a_backoff_limit_beyond_all_attempts_is_cut_with_a_note() -> None:
    draft = only(read("kubernetes", cron_job(job={"backoffLimit": 5_000})))
    assert draft.body["retry"]["max_attempts"] == 1_000
    assert "spec.jobTemplate.spec.backoffLimit" in noted(draft)
