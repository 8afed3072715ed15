"""Two revisions measured in turns: pairs of runs, close to each other, on the same machine.

Figures of a busy machine drift by a third within minutes, and what drifts slowly cancels out in a
pair. Who goes first alternates, since the second of two runs may find a warmer machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.result import Result, read_results
from engine.errors import BadInput, Unusable


def measure_against(
    root: Path,
    revision: str,
    scenario: str,
    rounds: int,
    options: Sequence[str] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> list[tuple[Result, Result]]:
    """Return `rounds` pairs of results of a scenario: of `revision`, and of the tree at `root`.

    Each tree runs its own harness, with `options`; `tell` hears of each run before it. The revision
    is checked out beside, and gone afterwards whatever happens. Raises BadInput for what is no
    revision, and Unusable, with what a run said, if one fails.
    """
    pairs = []
    with _checked_out(root, revision) as other:
        for n in range(rounds):
            trees = [other, root] if n % 2 == 0 else [root, other]
            results = {}
            for tree in trees:
                tell(f"{n + 1}/{rounds} {revision if tree == other else 'this tree'} …")
                results[tree] = _run(tree, scenario, options)
            pairs.append((results[other], results[root]))
    return pairs


@contextmanager
def _checked_out(root: Path, revision: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder:
        tree = Path(folder) / "tree"
        try:
            _git(root, "worktree", "add", "--detach", str(tree), f"{revision}^{{commit}}")
        except subprocess.CalledProcessError as error:
            raise BadInput(
                f"{revision!r} cannot be checked out beside this tree: {error.stderr.strip()}"
            ) from None
        try:
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(root: Path, *args: str) -> None:
    subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=True)


def _run(tree: Path, scenario: str, options: Sequence[str]) -> Result:
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "bench", scenario, *options, "--json", str(out)]
        # The tree comes before what is installed, for processes that a scenario starts, too.
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unusable(f"{scenario} failed in {tree}:\n{done.stderr.strip()}")
        return read_results(out)[scenario]
