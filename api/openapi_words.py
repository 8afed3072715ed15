"""What the OpenAPI document says beside types: of paths, headers, parts and refusals."""

from __future__ import annotations

import inspect
from http import HTTPStatus
from typing import Any

from api.idempotency import VALUE as IDEMPOTENCY_KEY
from api.problems import STATUS
from engine.errors import CODES
from engine.names import JOB_ID, QUEUE

ABOUT = (
    "Cron as a service: jobs at a time, on a schedule, or as soon as possible. Times are RFC 3339,"
    " durations milliseconds, refusals RFC 9457 problems with a stable `code` and a pointer to"
    " each field that is wrong. Unknown fields and query parameters are refused, and nothing is"
    " converted."
)
_NAME = f"^{QUEUE.pattern}$"
_EXECUTION_ID = f"^{JOB_ID.pattern}@[0-9]{{1,15}}$"
PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "job_id": {"pattern": f"^{JOB_ID.pattern}$", "examples": ["nightly-report"]},
    "execution_id": {"pattern": _EXECUTION_ID, "examples": ["nightly-report@1796007600000"]},
    "queue": {"pattern": _NAME, "examples": ["mail"]},
    "group": {"pattern": _NAME, "examples": ["billing"]},
    "name": {"pattern": _NAME, "examples": ["holidays"]},
    "secret_id": {"minLength": 1, "examples": ["1"]},
    "key_id": {"minLength": 1, "examples": ["k3y1d"]},
    "host": {"minLength": 1, "examples": ["api.example.com"]},
    "time": {"minLength": 1, "examples": ["2030-01-31T09:00:00Z"]},
    "token": {"minLength": 1, "description": "The end of the URL that the target was sent."},
}
"""What stands in a path, by its name there."""

REQUEST_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Last-Event-ID": (
        "The id of the last event that was seen; what came after it is sent first.",
        {"type": "string", "format": "event-place"},
    ),
    "If-None-Match": (
        "The ETag of an answer that is there already: 304 if nothing has changed. On a write `*`:"
        " 412 if there is anything.",
        {"type": "string"},
    ),
    "Idempotency-Key": (
        "Any text that is this request's own. Sent again with it, the request is carried out once,"
        " and answered as it was (`Idempotency-Replayed: true`).",
        {"type": "string", "pattern": IDEMPOTENCY_KEY.pattern, "examples": ["report-2030-01-31"]},
    ),
    "If-Match": (
        "The ETag that was read, or its version in quotes: 412 if another one stands.",
        {
            "type": "string",
            "pattern": '^([*]|"[0-9]+([.][0-9a-f]{8}[.][0-9a-f]{16})?")$',
            "examples": ['"1"'],
        },
    ),
}
"""What each header says that a request may have, and its schema."""
ANSWER_HEADERS: dict[str, str] = {
    "ETag": "In quotes the version; of a job also when it was made and what is shown, as digests.",
    "Link": "Where the next page is, with rel=next (RFC 8288).",
    "Location": "Where what was made is found.",
    "Idempotency-Replayed": "`true` on an answer that was given before.",
    "RateLimit": "What is left of the key's requests, `r`, and in how many seconds it is all there"
    " again, `t`; of a key that has a rate.",
    "RateLimit-Policy": "How many requests the key may send, `q`, in how many seconds, `w`.",
    "Retry-After": "Seconds to wait before the request is sent again.",
    "WWW-Authenticate": "`Bearer`: an API key is asked for.",
}
PARTS: dict[str, str] = {
    "jobs": "Register jobs, look at them, run, pause and delete them.",
    "edits": "Change jobs.",
    "bulk": "Register and delete jobs by the thousand.",
    "groups": "All jobs of a group at once.",
    "executions": "What ran, what runs, and what did not run and why.",
    "cancelling": "End what is live.",
    "graphs": "Jobs that depend on jobs.",
    "schedules": "What a schedule means, and when a job runs next.",
    "backfills": "Run the times of a range that has passed.",
    "calendars": "Days and hours on which nothing, or all, runs.",
    "letters": "Dead letters: executions for which there is no further attempt.",
    "queues": "Queues: what they are allowed, and how they stand.",
    "hosts": "Hosts of http targets: what they are allowed, and how they stand.",
    "callbacks": "Where targets report on long jobs.",
    "claims": "Take work over HTTP.",
    "completions": "Report on work that was taken over HTTP.",
    "events": "What happens, as it happens.",
    "secrets": "What signs the calls of http targets.",
    "keys": "Keys of this API: who may do what.",
    "fleet": "Shards, schedulers, workers, and the server below them.",
    "stats": "How the last seconds went.",
    "doctor": "Is all well, and if not, what to do.",
    "health": "Is it alive, and can it work.",
    "openapi": "This description.",
    "docs": "This description, to read.",
}
"""What an operation's part is about, in the order of the document."""

_OF_A_JOB = (
    "jobs_show",
    "edits_patch",
    "jobs_run",
    "jobs_pause",
    "jobs_resume",
    "executions_index",
    "schedules_upcoming",
    "graphs_around",
    "jobs_delete",
)
LINKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "jobs_create": ("job_id", _OF_A_JOB),
    "edits_put": ("job_id", _OF_A_JOB),
    "jobs_run": ("execution_id", ("executions_show", "cancelling_cancel_one")),
    "keys_create": ("key_id", ("keys_rotate", "keys_revoke")),
}
"""Operation → the field of its answer that names what others are about, and these."""

_DETAILS = {
    "too_large": "a body has 1048576 bytes at the most",
    "unsupported_media_type": "send the body as Content-Type: application/json",
    "precondition_failed": "there is version 2 now, not the one of If-Match; read it",
    "method_not_allowed": "/v1/jobs answers GET, HEAD, POST",
    "request_timeout": "the body did not go on for 30 seconds; send the request again",
    "internal": "Waterclock failed to answer this; its log says why",
    "unavailable": "Redis cannot be reached, or takes no writes now",
}
"""What a refusal may say that no error of the engine stands for."""


def problem_example(code: str) -> dict[str, Any]:
    """Return an example of the problem of a code."""
    status = STATUS[code]
    # An error says in its first sentence what it stands for.
    about = " ".join((inspect.getdoc(CODES[code]) or "").split()) if code in CODES else ""
    detail = _DETAILS.get(code) or about.partition(". ")[0].rstrip(".")
    is_of_a_part = status == HTTPStatus.BAD_REQUEST and code != "bad_signature"
    return {
        "value": {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code,
            "errors": [{"pointer": "/schedule_expr", "detail": detail}] if is_of_a_part else [],
        }
    }
