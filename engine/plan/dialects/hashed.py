"""Entries that a dialect spreads over its jobs (`H`, `0~30`), made concrete by the job's id.

The number drawn is a hash of the job's id, the field and the entry's place in it: the same on every
machine and after every restart, different from job to job, and not moved by changes to other
fields.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from engine.plan.cron_fields import Field
from engine.plan.cron_parse import (
    Grammar,
    Word,
    choose_layout,
    parse_entry,
    read_words,
    refusal,
    split,
)
from engine.plan.dialects.base import Reading

Draw = Callable[[int], int]
"""Returns a number from 0 up, below the given one. Refuses with ValueError if there is no job."""
Choose = Callable[[Field, str, Draw], str | None]
"""Returns the concrete entry for one in capitals, or None if it is concrete. Refuses with
ValueError, whose text says why."""


def read_hashed(grammar: Grammar, expr: str, job_id: str | None, choose: Choose) -> Reading:
    """Return the reading of an expression in which some entries are spread over jobs.

    Refuses what the grammar does, and entries to be spread without a `job_id`.
    """
    words = split(expr)
    concrete = [
        Word(_settle(grammar, field, word, job_id, choose), word.position)
        for field, word in zip(choose_layout(grammar, words), words, strict=True)
    ]
    return Reading(read_words(grammar, concrete), " ".join(word.text for word in concrete))


def _settle(grammar: Grammar, field: Field, word: Word, job_id: str | None, choose: Choose) -> str:
    """Return the word with its entries made concrete."""
    settled, position = [], word.position
    for index, entry in enumerate(word.text.split(",")):
        try:
            chosen = choose(field, entry.upper(), _drawing(grammar, job_id, field, index))
        except ValueError as error:
            raise refusal(f"{field.name}: {entry!r} at character {position} {error}") from None
        if chosen is None:
            # Read here for its refusals: later, positions in a list would have moved.
            parse_entry(grammar, field, entry, position, alone=entry == word.text)
        settled.append(chosen or entry)
        position += len(entry) + 1
    return ",".join(settled)


def _drawing(grammar: Grammar, job_id: str | None, field: Field, index: int) -> Draw:
    def draw(below: int) -> int:
        if job_id is None:
            raise ValueError(f"is spread over jobs by {grammar.name}, which takes a job id")
        digest = blake2b(f"{job_id}\n{field.name}\n{index}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % below

    return draw


def spread(draw: Draw, first: int, last: int, step: int | None) -> str:
    """Return a value of `first` to `last`, or every `step`-th one from one of the first `step`.

    Refuses with ValueError a range that is empty, and a step that does not fit into it.
    """
    if first > last:
        raise ValueError(f"is a reversed range; write the smaller first, {last} and {first}")
    if step is None:
        return str(first + draw(last - first + 1))
    if not 1 <= step <= last - first + 1:
        raise ValueError(f"has a step of {step}; use 1 to {last - first + 1}, the range's length")
    return f"{first + draw(step)}-{last}/{step}"
