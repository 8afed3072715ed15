"""What schemathesis is told of the API: texts of our formats, NDJSON, and rules of no schema."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import chain
from typing import Any

import orjson
import schemathesis
from conftest import SHARDS
from hypothesis import strategies as st
from schemathesis.core.transport import Response

from api.leases import dump_claimed
from api.lines import NDJSON
from engine.execution import Delivery
from engine.keys import Layout, spread_tags
from engine.webhooks import secret_text

JOB = "nightly-report"
"""The job that the document's examples name: it is there when an operation is tried."""


def _lease(attempt: int) -> str:
    """Return a lease that could be one, and that nobody holds."""
    shard = Layout(spread_tags(SHARDS)).shard_of(JOB).index
    delivery = Delivery(
        shard, "default", "1-1", "w1", 1, f"{JOB}@1796007600000", attempt, 0, b"", b"", b"null"
    )
    return dump_claimed(delivery, 0)


ICAL = b"""BEGIN:VCALENDAR\r
BEGIN:VEVENT\r
DTSTART;VALUE=DATE:20301224\r
END:VEVENT\r
END:VCALENDAR\r
"""

NO_SCHEMA_SAYS: dict[str, tuple[str, ...]] = {
    "a rule between fields": (
        "goes with",
        "say which by a filter",
        "stands here twice",
        "there is no time between",
        "end_at is before",
        "name either",
        "times of day can roll",
        "placeholder",
        "is after `to`",
        "covers ten years",
        "needs a schedule that repeats",
        "cannot begin paused",
        "a gate is for a job with a schedule",
        "needs `gate`",
        "a gate waits for",
        "hours are spans of one day",
        "to roll by",
        "does not count what is live",
        "is never done with",
        "depends on itself",
        "kept for",
        "leave backoff out",
        "of no group whose secrets",
        "a bare number is not signed",
        "max_ms must be",
        "counts the jobs of groups",
        "go over all groups",
    ),
    "what is stored decides": (
        "not there: job",
        "there is no calendar",
        "no time in this range",
        "a backfill takes",
        "is in use already",
    ),
    "what time it is decides": ("lies in the future",),
    "the word in the URL is signed": ("this is no URL that a target was sent",),
    "1.0 is an integer to a schema; here nothing is converted": ("should be a valid integer",),
    "upper and lower case are one": ("is set by Waterclock itself", "two headers have the same"),
    "a bound of a whole body": ("a whole number of more than 64 bits", "nested too deeply"),
    "what Unicode says of a character": ("characters that can be printed",),
}
"""Why data that the schema allows may be refused → parts of such refusals."""
_BEYOND = tuple(chain.from_iterable(NO_SCHEMA_SAYS.values()))

_TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2199, 12, 30))  # noqa: DTZ001
_PLACE = st.integers(1, 10**12).map(lambda at: f"{at}-nightly-report@{at}")
FORMATS: dict[str, st.SearchStrategy[str]] = {
    "date-time": _TIMES.map(lambda at: f"{at:%Y-%m-%dT%H:%M:%S}+01:00"),
    "hours": st.just("09:00-17:30"),
    "lease": st.builds(_lease, st.integers(1, 9)),
    "letter-place": _PLACE,
    "schedule": st.sampled_from(["0 9 * * 1-5", "every 15m", "@daily", "2100-01-31T09:00:00Z"]),
    "webhook-secret": st.binary(min_size=24, max_size=64).map(secret_text),
    "time-zone": st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]),
    "uri": st.from_regex(
        r"https?://[a-z]{1,9}\.example\.com(:8443)?/[a-z/]{0,9}(\?q=[a-z]+)?", fullmatch=True
    ),
}
"""Format → texts that have it."""

for _name, _strategy in FORMATS.items():
    schemathesis.openapi.format(_name, _strategy)
schemathesis.openapi.media_type("text/calendar", st.just(ICAL))


@schemathesis.serializer(NDJSON)
def _to_line(_: object, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.deserializer(NDJSON)
def _of_line(_: object, response: Response) -> Any:
    return orjson.loads(response.content.splitlines()[0])


def is_beyond_schemas(problem: dict[str, Any]) -> bool:
    """Return whether all that a refusal names is in the table."""
    faults = problem.get("errors") or [problem]
    return all(any(part in fault["detail"] for part in _BEYOND) for fault in faults)
