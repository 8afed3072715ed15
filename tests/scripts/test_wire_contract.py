"""The wire contract in lua/README.md names the keys and the codes that there are."""

from __future__ import annotations

import re

from engine import keys
from engine.scripts import FOLDER, Header

README = (FOLDER / "README.md").read_text("utf-8")
VERBS = sorted(path.stem for path in FOLDER.glob("*.lua"))


def rows_after(heading: str) -> list[list[str]]:
    """Return the cells of the first table after a numbered heading, as they are written."""
    _, *rest = re.split(rf"^## \d+\. {heading}$", README, maxsplit=1, flags=re.MULTILINE)
    found = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", "".join(rest), re.MULTILINE)
    assert found, f"no table after {heading!r}"
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in found[1].splitlines()]
    return [[cell.strip() for cell in row] for row in rows]


def test_every_key_stands_in_the_table() -> None:
    shard = keys.Shard(0, "tag")
    expected = {
        *(keys.LAYOUT, keys.SCHEDULERS, keys.CALENDARS),
        *(keys.QUEUES, keys.HOSTS, keys.PUSHBACK, keys.SIGNING),
        *(shard.jobs, shard.plans, shard.buckets, shard.lease, shard.fence, shard.dead),
        *(shard.gates, shard.backfills, shard.ledger, shard.waiting),
        *(shard.job("<id>"), shard.runs("<id>"), shard.due("<bucket>"), shard.ready("<stream>")),
        *(shard.letter("<execution>"), shard.effects("<execution>")),
    }
    assert {row[0].strip("`") for row in rows_after("Keys")} == expected


def test_every_code_stands_in_the_table_with_the_scripts_that_refuse_with_it() -> None:
    refusing: dict[str, set[str]] = {}
    for verb in VERBS:
        header = Header.parse((FOLDER / f"{verb}.lua").read_text("utf-8"))
        for code in re.findall(r"\b[A-Z][A-Z_]+\b", header.sections["Error"]):
            refusing.setdefault(code, set()).add(verb)
    told = {
        code.strip("`"): set(re.findall(r"`(\w+)`", verbs))
        for code, verbs, _ in rows_after("Codes")
    }
    assert told == refusing
