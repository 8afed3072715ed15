"""Names for what is imported: readable, stable, and within the grammar of `engine.names`.

A name that has to be respelled gets a hash of what it was, so that two names never become one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from engine.importers.imported import Draft, Note
from engine.names import JOB_ID, QUEUE

MOST_ID_CHARS = 128
MOST_NAME_CHARS = 64
_HASH_CHARS = 6


def job_id_of(name: str, prefix: str = "") -> str:
    """Return the job id of a thing called `name`: its name, if the grammar allows that."""
    job_id = prefix + name
    if JOB_ID.fullmatch(job_id):
        return job_id
    return _respelled(job_id, r"[^A-Za-z0-9._:-]+", MOST_ID_CHARS) or "job"


def queue_of(name: str) -> str:
    """Return the queue, group or tag of a thing called `name`."""
    return name if QUEUE.fullmatch(name) else _respelled(name, r"[^A-Za-z0-9._-]+", MOST_NAME_CHARS)


def handler_of(name: str, most: int) -> str:
    """Return a handler's name, cut to `most` characters with a hash at the end if it is longer."""
    return name if len(name) <= most else f"{name[: most - _HASH_CHARS - 1]}-{_hash(name)}"


def with_own_ids(drafts: Iterable[Draft]) -> list[Draft]:
    """Return the drafts with an id each: of those that share one, the later get `-2`, `-3`, ….

    They stay the same as long as the entries keep their order.
    """
    seen: Counter[str] = Counter()
    unique = []
    for draft in drafts:
        seen[draft.job_id] += 1
        if (count := seen[draft.job_id]) > 1:
            job_id = f"{draft.job_id[: MOST_ID_CHARS - len(str(count)) - 1]}-{count}"
            note = Note("name", draft.job_id, f"an entry before it has this id: it is {job_id}")
            draft = replace(
                draft, body={**draft.body, "job_id": job_id}, notes=(*draft.notes, note)
            )
        unique.append(draft)
    return unique


def _respelled(text: str, bad: str, most: int) -> str:
    slug = re.sub(bad, "-", text).strip("-._:")[: most - _HASH_CHARS - 1].strip("-._:")
    return f"{slug}-{_hash(text)}" if slug else _hash(text)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
