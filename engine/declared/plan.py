"""A plan: what must be done so that all is as declared, and what is wrong or worth a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.declared.difference import Step, differences
from engine.declared.document import Entry, Fault
from engine.importers.documents import Place


@dataclass
class Plan:
    """The steps, in no order yet; none is to be taken if there are faults."""

    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    """Things that are as declared."""
    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def of(self, *verbs: str, kind: str) -> list[Step]:
        """Return the steps of a kind."""
        return [step for step in self.steps if step.verb in verbs and step.kind == kind]

    def add(self, step: Step, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> None:
        """Add a step that makes `new` of `old`, None for nothing; count it as unchanged if they are
        the same."""
        found = () if old is None else differences(old, new)
        if old is not None and not found:
            self.unchanged += 1
        else:
            self.steps.append(replace(step, differences=found))

    def refuse(self, entry: Entry, wrong: Iterable[tuple[Place, str]]) -> None:
        """Add what is wrong at places in a body."""
        for place, reason in wrong:
            # What many jobs have from the defaults is wrong once.
            if (fault := entry.fault(place, reason)) not in self.faults:
                self.faults.append(fault)
