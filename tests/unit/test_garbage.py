"""How often processes look for garbage; each in an interpreter of its own, since it is changed."""

from __future__ import annotations

import subprocess
import sys


def said_by(program: str) -> list[str]:
    """Return the words that a program prints."""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return run.stdout.split()


def test_what_a_process_begins_with_is_not_looked_through_again() -> None:
    program = "import gc; from engine.garbage import look_seldom; look_seldom();"
    frozen, tracked = said_by(program + "print(gc.get_freeze_count(), len(gc.get_objects()))")
    assert int(frozen) > 10 * int(tracked)


def test_garbage_that_refers_to_itself_is_still_found() -> None:
    program = """
import weakref
from engine.garbage import YOUNG, look_seldom
class Ring: pass
look_seldom()
ring = Ring()
ring.itself = ring
gone = weakref.ref(ring)
del ring
kept = [[] for _ in range(YOUNG + 1)]
print(gone())
"""
    assert said_by(program) == ["None"]


def test_importing_changes_nothing() -> None:
    ask = "print(gc.get_freeze_count(), gc.get_threshold()[0])"
    assert said_by(f"import gc, engine.cli.process; {ask}") == said_by(f"import gc; {ask}")


def test_a_process_of_ours_looks_seldom() -> None:
    program = """
import gc
from engine.cli.process import run_process
async def main(stop): print(gc.get_freeze_count() > 0, gc.get_threshold()[0])
run_process(main)
"""
    assert said_by(program) == ["True", "10000"]
