"""A result: what a run of a scenario leaves, as JSON; written to a file, and read from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

from bench.stage import Metrics
from engine.errors import BadInput


class Result(TypedDict):
    scenario: str
    jobs: int
    is_quick: bool
    metrics: Metrics
    notes: dict[str, Any]
    """What the scenario has to say beside its figures."""
    environment: dict[str, Any]
    """The conditions; see `bench/environment.py`."""


def as_text(result: Result) -> str:
    """Return a result as it is printed and stored."""
    return json.dumps(result, indent=2)


def read_results(path: Path) -> dict[str, Result]:
    """Return the results in a file, or in all `.json` files of a folder, by scenario.

    Raises BadInput, naming the file, for what is no result.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    results = [_read(file) for file in files]
    if not results:
        raise BadInput(f"there is no result in {path}")
    return {result["scenario"]: result for result in results}


def _read(file: Path) -> Result:
    try:
        result: Result = json.loads(file.read_text("utf-8"))
        if isinstance(result, dict) and result.keys() >= Result.__annotations__.keys():
            return result
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    except ValueError:
        pass
    raise BadInput(f"{file} is no result: `python -m bench SCENARIO --json FILE` writes one")
