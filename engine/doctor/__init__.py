"""The doctor: what is found of a deployment, judged, with what to do about it.

facts.py collects, with no opinion; the other modules judge, without asking anybody. Each judgement
is a function from facts to findings, so each can be tried with facts that are made up.
"""

from __future__ import annotations

from engine.doctor.facts import Facts, collect
from engine.doctor.findings import Finding, Verdict
from engine.doctor.fleet import judge_fleet
from engine.doctor.server import judge_server
from engine.doctor.work import judge_audit, judge_work

__all__ = ["Facts", "Finding", "Verdict", "collect", "examine", "judge_audit"]


def examine(facts: Facts) -> list[Finding]:
    """Return what there is to say, in the order of what to mend first."""
    return [
        *judge_server(facts.server),
        *judge_fleet(facts),
        *judge_work(facts),
        judge_audit(facts.audit),
    ]
