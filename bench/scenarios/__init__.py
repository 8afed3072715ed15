"""Scenarios, one a file: `async def run(stage) -> Metrics`, and `SCENARIO`, which says how much.

The docstring of a scenario is its page of `python -m bench NAME --help`; the first line of that
stands in the list of all.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

from bench.stage import Scenario

NAMES = (
    "floor",
    "spike",
    "oneoff",
    "steady",
    "execute",
    "http",
    "register",
    "plans",
    "memory",
    "idle",
    "scale",
    "failover",
    "peers",
)
"""In the order in which all are run and reported."""


def load(name: str) -> Scenario:
    """Return the scenario of this name."""
    scenario: Scenario = import_module(f"bench.scenarios.{name}").SCENARIO
    return scenario


def describe(name: str) -> str:
    """Return what a scenario says of itself: read, not imported, since some bring much."""
    path = Path(__file__).with_name(f"{name}.py")
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.removeprefix(f"{name}: ")
