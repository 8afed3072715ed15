"""Does the work go well: dead letters, and whether the index agrees with the records."""

from __future__ import annotations

from collections.abc import Iterator

from engine.doctor.facts import Facts
from engine.doctor.findings import Finding, fail, ok, warn
from engine.store.audit import Audit


def judge_work(facts: Facts) -> Iterator[Finding]:
    yield _letters(facts)
    yield _poison(facts)


def _letters(facts: Facts) -> Finding:
    check, letters = "dead letters", facts.letters
    found = f"{letters.total}, {letters.last_hour} of the last hour"
    if letters.total >= letters.most:
        return warn(
            check,
            found,
            "there is no room for more, and the oldest are discarded: see `waterclock dead list`",
        )
    if not letters.last_hour:
        return ok(check, found)
    grows = letters.last_hour > letters.hour_before
    found += f" ({letters.hour_before} of the one before)" if grows else ""
    return warn(check, found, "see why (`waterclock dead list`), mend it, and redrive them")


def _poison(facts: Facts) -> Finding:
    check, poison = "poison", facts.letters.poison_last_hour
    if not poison:
        return ok(check, "none in the last hour")
    return fail(
        check,
        f"{poison} executions of the last hour were delivered again and again, and never ended",
        "they end their workers, or outlast their leases: see `waterclock dead list --reason"
        " poison` and the logs of the workers",
    )


def judge_audit(audit: Audit) -> Finding:
    """Judge how the index agrees with the records."""
    check = "index"
    seen = f"{audit.jobs} jobs and {audit.members} members of the index looked at"
    seen += "" if audit.is_whole else " (a sample; --full looks at all)"
    if not audit.faults:
        return ok(check, f"agrees with the records: {seen}")
    counts = ", ".join(f"{count} × {kind}" for kind, count in audit.faults.most_common())
    return fail(
        check,
        f"{counts}; {seen}. First: {'; '.join(audit.examples)}",
        "keep a copy of the server's data, and report this. A job that does not fire does again"
        " after `waterclock jobs pause` and `resume`",
    )
