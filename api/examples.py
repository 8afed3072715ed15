"""Bodies to begin with, by the name of the operation that takes them. A test validates each."""

from __future__ import annotations

from typing import Any

_HOOK = {"type": "http", "url": "https://api.example.com/hooks/report"}

EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "jobs_create": {
        "weekdays": {
            "summary": "Each weekday at nine in Paris, with the payload",
            "value": {
                "job_id": "nightly-report",
                "schedule_expr": "0 9 * * 1-5",
                "timezone": "Europe/Paris",
                "target": _HOOK,
                "payload": {"report": "sales"},
            },
        },
        "once": {
            "summary": "Once, at a time",
            "value": {"schedule_expr": "2040-01-31T09:00:00Z", "target": _HOOK},
        },
        "now": {
            "summary": "As soon as possible, by a worker of your own",
            "value": {"target": {"type": "worker", "handler": "send_mail"}, "queue": "mail"},
        },
    },
    "edits_put": {
        "interval": {
            "summary": "Every quarter of an hour, three attempts",
            "value": {
                "schedule_expr": "every 15m",
                "target": _HOOK,
                "retry": {"max_attempts": 3},
            },
        }
    },
    "edits_patch": {
        "later": {"summary": "Another hour", "value": {"schedule_expr": "0 10 * * 1-5"}}
    },
    "schedules_preview": {
        "leap": {"summary": "When is that?", "value": {"schedule_expr": "0 0 29 2 *", "n": 3}}
    },
    "backfills_create": {
        "dry": {
            "summary": "What a backfill of a day would run",
            "value": {
                "from": "2026-01-01T00:00:00Z",
                "to": "2026-01-02T00:00:00Z",
                "dry_run": True,
            },
        }
    },
    "keys_create": {
        "team": {
            "summary": "For a team that sees the jobs of its own group alone",
            "value": {
                "name": "billing",
                "scopes": ["write"],
                "groups": ["billing"],
                "rate": 100,
                "max_jobs": 10000,
            },
        }
    },
    "claims_claim": {
        "batch": {
            "summary": "Up to ten, waiting for work",
            "value": {"worker": "mailer-1", "queue": "mail", "max": 10, "wait_ms": 20000},
        }
    },
}
