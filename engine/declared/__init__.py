"""Jobs, calendars and limits as files in git declare them, held against what stands. Pure.

Reading order: document (files to entries), difference (what is not as declared), order (what must
happen before what), plan (all of it together). What a body means, and whether it is right, the
API's own types say (api/declared.py).
"""

from __future__ import annotations

from engine.declared.difference import Difference, Kind, Step, Verb, differences
from engine.declared.document import FORMAT, SECTIONS, Declared, Entry, Fault, Source, read_sources
from engine.declared.order import levels
from engine.declared.plan import Plan

__all__ = [
    "FORMAT",
    "SECTIONS",
    "Declared",
    "Difference",
    "Entry",
    "Fault",
    "Kind",
    "Plan",
    "Source",
    "Step",
    "Verb",
    "differences",
    "levels",
    "owner_tag",
    "read_sources",
]


def owner_tag(owner: str) -> str:
    """Return the tag of jobs that are declared under an owner."""
    return f"owner.{owner}"
