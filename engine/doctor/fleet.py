"""Does somebody do the work: schedulers for all shards, workers for all queues, all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.doctor.facts import Facts
from engine.doctor.findings import Finding, Verdict, fail, ok, span, warn
from engine.doctor.server import clock
from engine.names import SHELL_QUEUE
from engine.store.phase import REFUSALS

LATE_MS = 5_000
VERY_LATE_MS = 60_000
_NAMED = 5
"""How many things a line names."""


def judge_fleet(facts: Facts) -> Iterator[Finding]:
    yield _phase(facts)
    yield _schedulers(facts)
    yield _lag(facts)
    yield _workers(facts)
    yield from _clocks(facts)
    yield _versions(facts)
    yield _zones(facts)


def _phase(facts: Facts) -> Finding:
    check = "deployment"
    if facts.phase is None:
        return ok(check, f"{sum(shard.jobs for shard in facts.shards)} jobs")
    return fail(
        check,
        f"it {REFUSALS[facts.phase]}",
        "nothing fires here: go on with the move, or give it up with `waterclock deployment thaw`",
    )


def _schedulers(facts: Facts) -> Finding:
    check = "shards with a scheduler"
    alone = [shard.index for shard in facts.shards if shard.holder is None]
    found = f"{len(facts.shards) - len(alone)} of {len(facts.shards)}"
    if not alone:
        return ok(check, f"{found}, by {len(facts.schedulers)} schedulers")
    if not facts.schedulers:
        return fail(check, found, "nothing fires: start `waterclock scheduler`")
    return fail(
        check,
        f"{found}; nobody holds {_list(alone)}",
        "nothing of these fires. After the end of a scheduler they are taken over within its lease;"
        " if this stays so, see the logs of the schedulers, and start another one",
    )


def _lag(facts: Facts) -> Finding:
    """A shard that somebody holds is stuck if the oldest of what is due stays the same from one
    look to the next; else it is behind."""
    check = "lateness"
    late = [shard for shard in facts.shards if shard.lag_ms >= LATE_MS]
    worst = max((shard.lag_ms for shard in facts.shards), default=0)
    if not late:
        return ok(check, f"what is due is due for {span(worst)} at the most")
    stuck = [
        shard.index
        for shard in late
        if shard.holder and facts.oldest_due_later.get(shard.index) == shard.oldest_due_at
    ]
    found = f"{len(late)} shards have something that is due for up to {span(worst)}"
    if stuck:
        return fail(
            check,
            f"{found}; held and stuck: {_list(stuck)}",
            "its scheduler holds the lease and fires nothing: see its log (a full server, a plan of"
            " a newer version, a frozen process), and restart it; another one takes over",
        )
    judge = fail if worst >= VERY_LATE_MS else warn
    return judge(
        check,
        found,
        "the schedulers do not keep up, or come from a pause: start more of them, and see that the"
        " server is not busy with others",
    )


def _workers(facts: Facts) -> Finding:
    check = "queues with a worker"
    read = {queue for worker in facts.workers for queue in worker.queues}
    alone = [
        queue
        for queue in facts.queues
        if queue.queue not in read and not queue.settings.paused and sum(queue.waiting.values()) > 0
    ]
    if not alone:
        return ok(check, f"all that have something waiting; {len(facts.workers)} workers")
    waiting = sum(sum(queue.waiting.values()) for queue in alone)
    names = [queue.queue for queue in alone]
    start = f"`waterclock worker --queue {names[0]}`"
    if names[0] == SHELL_QUEUE:
        start = f"`waterclock worker --queue {SHELL_QUEUE} --allow-shell`"
    return fail(
        check,
        f"{waiting} executions wait where no worker reads: {_list(names)}",
        f"start a worker for it ({start}, or a consumer of yours), or pause it",
    )


def _clocks(facts: Facts) -> Iterator[Finding]:
    if not facts.processes:
        return
    worst = max(facts.processes, key=lambda process: abs(process.skew_ms))
    judged = clock("clocks of the processes", worst.skew_ms)
    found = f"the farthest is {judged.found}"
    if judged.verdict is not Verdict.OK:
        found += f" ({worst.host})"
    yield Finding(judged.check, judged.verdict, found, judged.advice)


def _versions(facts: Facts) -> Finding:
    check = "versions of Waterclock"
    versions = sorted({facts.version, *(process.version for process in facts.processes)})
    if len(versions) == 1:
        return ok(check, versions[0])
    return warn(check, _list(versions), "two can work side by side, for a deploy: finish it")


def _zones(facts: Facts) -> Finding:
    check = "time zones"
    zones = sorted({facts.zones, *(process.zones for process in facts.processes)})
    newest = max(*zones, *facts.zones_before, "")
    if len(zones) > 1 or zones[0] != newest:
        return warn(
            check,
            f"tzdata {_list(zones)}" + (f", and {newest} before" if newest not in zones else ""),
            "the same schedule may mean different times: install the same tzdata everywhere; next"
            f" times go by the newest, {newest}",
        )
    if facts.zones_before:
        return warn(
            check,
            f"tzdata {newest}; next times of {_list(sorted(facts.zones_before))} are left",
            "the schedulers work them out anew: look again in a minute",
        )
    return ok(check, f"tzdata {newest}")


def _list(names: Iterable[object]) -> str:
    every = [str(name) for name in names]
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
