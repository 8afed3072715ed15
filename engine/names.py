"""The grammar of names: jobs, queues, groups, tags, executions; and the streams of a queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from engine.errors import BadInput

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
"""A host as it stands in a URL: a name or an address, and `:port` where the URL has one."""

SHELL_QUEUE = "shell"
"""The queue of shell targets unless a job names another."""
HTTP_QUEUE = "http"
"""The queue of HTTP targets unless a job names another."""
WORKER_QUEUE = "default"
"""The queue of worker targets unless a job names another."""


def execution_id(job_id: str, nominal_at: int) -> str:
    return f"{job_id}@{nominal_at}"


def split_execution_id(text: str) -> tuple[str, int]:
    """Return (job id, nominal time in ms) of an execution id. Refuses with BadInput anything
    else."""
    job_id, at, nominal = text.partition("@")
    if not (at and JOB_ID.fullmatch(job_id) and re.fullmatch(r"[0-9]{1,15}", nominal)):
        raise BadInput(
            "an execution id is <job id>@<nominal time in ms>, as the API returns it",
            field="execution_id",
        )
    return job_id, int(nominal)


def check_job_id(text: str) -> str:
    """Return `text` if it is a job id. Refuses with BadInput what does not match the grammar."""
    if not JOB_ID.fullmatch(text):
        raise BadInput(
            "a job id is 1 to 128 characters from A–Z a–z 0–9 . _ : - and begins with a letter"
            " or digit",
            field="job_id",
        )
    return text


def check_queue(text: str) -> str:
    """Return `text` if it is a queue name. Refuses with BadInput what does not match the
    grammar."""
    if not QUEUE.fullmatch(text):
        raise BadInput(
            "a queue name is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a letter"
            " or digit",
            field="queue",
        )
    return text


class Priority(StrEnum):
    """Of what waits in a queue, all that is `high` is read first, and `low` last."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def stream_of(queue: str, priority: Priority) -> str:
    """Return the name of the ready stream for a priority of a queue: the queue's own for `normal`,
    else `<queue>:<priority>`. A job's hash and a delivery name their queue so."""
    return queue if priority is Priority.NORMAL else f"{queue}:{priority}"


def split_stream(stream: str) -> tuple[str, Priority]:
    """Return (queue, priority) of a stream's name."""
    queue, _, priority = stream.partition(":")
    return queue, Priority(priority) if priority else Priority.NORMAL


def streams_of(queue: str) -> list[str]:
    """Return the names of a queue's streams, most urgent first."""
    return [stream_of(queue, priority) for priority in Priority]


def host_of(url: str) -> str | None:
    """Return the host of an http target, with its port if it has one: what limits of hosts go by
    (lua/lib/gates.lua reads the same part). None for what is no http URL."""
    found = re.match("https?://([^/?#]*)", url)
    return found[1].lower() if found else None


def check_host(text: str) -> str:
    """Return a host as limits go by it, in lower case. Refuses with BadInput what cannot be one."""
    if not HOST.fullmatch(text):
        raise BadInput("a host is a name or an address, and `:port` where the URL has one")
    return text.lower()


def check_group(text: str) -> str:
    """Return `text` if it is the name of a group; they are spelled as queues are. Refuses with
    BadInput what does not match the grammar."""
    if not QUEUE.fullmatch(text):
        raise BadInput(
            "a group's name is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a letter"
            " or digit",
            field="group",
        )
    return text


MOST_TAGS = 20


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a job, as they came; each is spelled as a group is. Refuses with BadInput
    what does not match the grammar, a tag that comes twice, and more than `MOST_TAGS`."""
    if len(tags) > MOST_TAGS:
        raise BadInput(f"a job has {MOST_TAGS} tags at the most", field="tags")
    for place, tag in enumerate(tags):
        if not QUEUE.fullmatch(tag):
            raise BadInput(
                "a tag is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a letter or"
                " digit",
                field=f"tags.{place}",
            )
        if tag in tags[:place]:
            raise BadInput(f"the tag {tag} is there already; name it once", field=f"tags.{place}")
    return tuple(tags)
