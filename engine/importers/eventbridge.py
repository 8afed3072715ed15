"""EventBridge Scheduler: what `aws scheduler get-schedule` prints, one object or many.

`list-schedules` prints summaries, without the schedule: each is refused, with the command that
prints it whole. AWS calls targets that cannot be called from here (a Lambda function, a queue of
SQS): such a job waits for a worker of yours in a queue named after the target, unless a target was
given for its ARN.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from engine.errors import BadInput
from engine.importers.documents import read_documents, read_json
from engine.importers.entry import NO_DESCRIPTION, Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options
from engine.importers.naming import queue_of

MEANINGLESS = ("Arn", "CreationDate", "LastModificationDate", "ClientToken", "ResponseMetadata")
"""What AWS knows of the schedule as a thing of its own."""

DEFAULT_GROUP = "default"
DEFAULT_ATTEMPTS = 186
DEFAULT_AGE_S = 86_400

_PLACEHOLDER = re.compile(r"<aws\.scheduler\.[a-z-]+>")
_PARAMETERS = (
    "EcsParameters",
    "EventBridgeParameters",
    "KinesisParameters",
    "SageMakerPipelineParameters",
    "SqsParameters",
)

_ONE_TIME = "AWS ignores it for a schedule of one time, and so it is here"


def read(text: str, options: Options) -> Imported:
    """Return the schedules of a text. Refuses with BadInput what is no JSON, and no schedule."""
    schedules, is_cut = [], False
    for document in read_documents(text):
        found = document if isinstance(document, list) else [document]
        for item in found:
            if isinstance(item, dict) and "Schedules" in item:
                is_cut |= bool(item.get("NextToken"))
                schedules += Fields(item).items("Schedules")
            else:
                schedules.append(item)
    notes = [_CUT] if is_cut else []
    return read_each(_places(schedules), lambda place, it: _read(place, it, options), *notes)


_CUT = Note(
    "NextToken", "(not shown)", "the list goes on", "list again with --starting-token, or no limit"
)


def _places(schedules: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, schedule in enumerate(schedules, start=1):
        name = schedule.get("Name") if isinstance(schedule, dict) else None
        yield f"schedule {number}" + (f", {name}" if name else ""), schedule


def _read(place: str, schedule: Any, options: Options) -> Draft:
    fields = Fields(schedule)
    for name in MEANINGLESS:
        fields.take(name)
    name, group = fields.word("Name"), fields.text("GroupName") or DEFAULT_GROUP
    if "ScheduleExpression" not in fields:
        raise BadInput(
            "a summary, which holds no schedule; import what this prints: aws scheduler"
            f" get-schedule --group-name {shlex.quote(group)} --name {shlex.quote(name)}"
        )
    entry = Entry(name if group == DEFAULT_GROUP else f"{group}.{name}", options)
    expr = fields.word("ScheduleExpression")
    entry.schedule(expr, "aws", fields.text("ScheduleExpressionTimezone") or "UTC")
    is_once = expr.lstrip().startswith("at(")
    entry.take_bounds(fields, "StartDate", "EndDate", _ONE_TIME if is_once else None)
    _window(entry, fields.inner("FlexibleTimeWindow"), is_once)
    _state(entry, fields)
    entry.group("GroupName", None if group == DEFAULT_GROUP else group)
    entry.body["overlap"] = "allow"
    _target(entry, fields.inner("Target"))
    entry.note_all(
        fields,
        {
            "Description": NO_DESCRIPTION,
            "KmsKeyArn": "payloads are not encrypted with a key of AWS",
        },
    )
    return entry.draft(place, fields)


def _window(entry: Entry, window: Fields, is_once: bool) -> None:
    mode, minutes = window.text("Mode") or "OFF", window.whole("MaximumWindowInMinutes")
    if mode == "OFF":
        return
    if mode != "FLEXIBLE" or not minutes:
        raise BadInput("FlexibleTimeWindow is OFF, or FLEXIBLE with MaximumWindowInMinutes")
    path = window.path_of("MaximumWindowInMinutes")
    if is_once:
        entry.note(path, minutes, "a schedule of one time has no window here: it fires on time")
        return
    entry.body["window_ms"] = minutes * 60_000
    entry.note(path, minutes, "a job's place in its window is fixed, and not drawn each time")


def _state(entry: Entry, fields: Fields) -> None:
    state = fields.text("State") or "ENABLED"
    if state not in ("ENABLED", "DISABLED"):
        raise BadInput(f"State is ENABLED or DISABLED, not {state[:32]!r}")
    entry.paused = state == "DISABLED"
    action = fields.text("ActionAfterCompletion") or "NONE"
    if action not in ("NONE", "DELETE"):
        raise BadInput(f"ActionAfterCompletion is NONE or DELETE, not {action[:32]!r}")
    if action == "DELETE":
        entry.body["delete_after_completion"] = True


def _target(entry: Entry, target: Fields) -> None:
    arn = target.word("Arn")
    payload, has_placeholders = _input(target.text("Input"))
    entry.run(arn, payload)
    ours = entry.body["target"]
    if ours["type"] == "worker":
        queue = entry.body["queue"] = queue_of(_short_name(arn))
        why = "cannot be called from here: the job waits for a worker of yours"
        entry.note("Target.Arn", arn, why, f"read queue {queue}, or name a target (--target-map)")
    if has_placeholders and ours["type"] == "http":
        ours["template"] = True
    elif has_placeholders:
        why = "its <aws.scheduler.…> placeholders are filled in for http targets only"
        entry.note("Target.Input", "(not shown)", why, "the worker knows execution id and time")
    _retry(entry, target)
    entry.note_all(
        target,
        {
            "RoleArn": "nothing is done in a role of AWS",
            "DeadLetterConfig": "what fails for good is among the dead letters; waterclock dead",
            **dict.fromkeys(_PARAMETERS, "how AWS calls the target; tell your worker"),
        },
    )


def _input(text: str | None) -> tuple[Any, bool]:
    """Return the payload, and whether AWS would fill something in."""
    if text is None:
        return None, False
    try:
        payload = read_json(text)
    except BadInput:
        payload = text
    return payload, bool(_PLACEHOLDER.search(text))


def _retry(entry: Entry, target: Fields) -> None:
    policy = target.inner("RetryPolicy")
    retries, age_s = policy.whole("MaximumRetryAttempts"), policy.whole("MaximumEventAgeInSeconds")
    path = policy.path_of("MaximumEventAgeInSeconds")
    entry.retry(
        policy.path_of("MaximumRetryAttempts"),
        DEFAULT_ATTEMPTS if retries is None else retries + 1,
        max_elapsed_ms=entry.within(path, (age_s or DEFAULT_AGE_S) * 1000),
    )


def _short_name(arn: str) -> str:
    """Return `lambda-report` for arn:aws:lambda:eu-west-1:123456789012:function:report."""
    parts = arn.split(":")
    if len(parts) < 6:
        raise BadInput(f"Target.Arn: {arn[:64]!r} is no ARN")
    return f"{parts[2]}-{re.split('[:/]', arn)[-1]}"
