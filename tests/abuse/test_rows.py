"""Every row of the list of abuses, 1 to 108, is a test whose name or id has `row_` and its
number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROWS = range(1, 109)
WAITING = {104: "there is no dashboard yet; its tests are of the page and the JSON that there are"}
"""Row → why its outcome is not all there is to test yet."""

_ROW = re.compile(r"(?<![a-z])row_([0-9]{2,3})(?![0-9])")
TESTS = Path(__file__).parents[1]


def rows_in(source: str) -> Iterator[int]:
    """Yield the rows that names of tests, and texts that may be ids of theirs, are of."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                found = _ROW.findall(text) if text.startswith("test_") else []
            case ast.Constant(value=str(text)):
                found = _ROW.findall(text) if text.startswith("row_") else []
            case _:
                found = []
        yield from map(int, found)


def test_every_row_is_a_test_and_no_other_is_claimed() -> None:
    sources = TESTS.glob("**/test_*.py")
    found = {row for path in sources for row in rows_in(path.read_text("utf-8"))}
    assert sorted(set(ROWS) - found) == []
    assert sorted(found - set(ROWS)) == []
    assert WAITING.keys() <= set(ROWS)


def test_a_row_is_found_in_a_name_and_in_an_id_and_nowhere_else() -> None:
    source = '''
"""Of row_90."""
async def test_row_01_and_row_102_both_do() -> None:
    """Of row_91, that is."""
def helper_for_row_92() -> None: ...
ids = ["row_03_x", f"row_04_{ids}", "arrow_93", "row_9_x", "row_1234"]
'''
    assert sorted(rows_in(source)) == [1, 3, 4, 102]
