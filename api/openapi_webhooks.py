"""What http targets are sent, as the OpenAPI document's webhooks say it."""

from __future__ import annotations

from typing import Any

from engine.webhooks import ID, SIGNATURE, TIMESTAMP

_HEADERS = {
    "Idempotency-Key": (True, "The execution's id: the same in each attempt of it."),
    "Waterclock-Job": (True, "The job's id."),
    "Waterclock-Scheduled-For": (True, "The nominal time, in RFC 3339."),
    "Waterclock-Attempt": (True, "Which attempt this is, from 1."),
    "traceparent": (True, "W3C Trace Context: an execution is a trace, an attempt a span of it."),
    "Prefer": (False, "`respond-async`, where the job lets its target report the end later."),
    "Waterclock-Callback": (
        False,
        "With `Prefer`: where to report, as `POST /v1/callbacks/{token}` has it. A secret.",
    ),
    ID: (False, "With `signing`: the execution's id, which is signed."),
    TIMESTAMP: (False, "With `signing`: when it was sent, in seconds since 1970."),
    SIGNATURE: (
        False,
        "With `signing`: `v1,` and the HMAC-SHA-256 of `<id>.<timestamp>.<body>`, one for each"
        " valid secret, as Standard Webhooks have it.",
    ),
}


def webhooks() -> dict[str, Any]:
    """Return the section `webhooks`: the one call that there is."""
    parameters = [
        {
            "name": name,
            "in": "header",
            "required": is_always_there,
            "description": about,
            "schema": {"type": "string"},
        }
        for name, (is_always_there, about) in _HEADERS.items()
    ]
    result = {
        "Waterclock-Result": {
            "description": "`body`: the body, JSON, is what dependent jobs are given.",
            "schema": {"type": "string"},
        }
    }
    return {
        "execution": {
            "post": {
                "operationId": "target_call",
                "summary": "Run an execution of a job whose target is of type http",
                "description": "Sent for each attempt, with the job's own headers beside these. An"
                " attempt may come twice, after a crash: `Idempotency-Key` tells.",
                "parameters": parameters,
                "requestBody": {
                    "description": "The job's payload; of one without, what its upstream jobs"
                    " gave, as `upstream`.",
                    "content": {"application/json": {"schema": {}}},
                },
                "responses": {
                    "2XX": {"description": "It succeeded.", "headers": result},
                    "202": {"description": "It succeeded; with `Prefer`, the end is reported."},
                    "3XX": {"description": "It failed; 307 and 308 are followed if the job says."},
                    "4XX": {"description": "It failed, and is not tried again."},
                    "408": {"description": "It failed, and is tried again."},
                    "425": {"description": "It failed, and is tried again."},
                    "429": {"description": "It failed, and is tried again after `Retry-After`."},
                    "5XX": {"description": "It failed, and is tried again."},
                },
            }
        }
    }
