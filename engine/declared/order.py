"""What must happen before what: upstream jobs are made before those that depend on them, and
deleted after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from engine.declared.difference import Step
from engine.errors import Cycle


def levels(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield steps for jobs, those first on which none of them depends, then those that depend on
    nothing but them, and so on. Raises Cycle, before the first, if some depend on themselves
    through others."""
    by_name = {step.name: step for step in steps}
    order = TopologicalSorter(
        {name: [up for up in step.depends_on if up in by_name] for name, step in by_name.items()}
    )
    try:
        order.prepare()
    except CycleError as error:
        # Told from the one that depends to those that it depends on.
        circle = " → ".join(reversed(error.args[1]))
        raise Cycle(f"these jobs depend on themselves: {circle}") from None
    while order.is_active():
        ready = order.get_ready()
        yield [by_name[name] for name in sorted(ready)]
        order.done(*ready)
