"""How often a process looks for garbage that refers to itself.

Python looks through all that is young after each 700 new objects, and through everything now and
then: a worker hands over hundreds of small objects at a time, and spent a fifth of its time so
(bench/README.md). Nearly all of them are freed by count, without a look.
"""

from __future__ import annotations

import gc

YOUNG = 10_000
"""Objects between two looks at the young ones: a few MiB."""
YOUNG_LOOKS, OLDER_LOOKS = 20, 20
"""Looks at one generation between two at the next."""


def look_seldom() -> None:
    """Take what the process holds now for kept for good, and look for garbage seldom from here on.
    For a process of our own only, once its modules are loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_LOOKS, OLDER_LOOKS)
