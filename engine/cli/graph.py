"""`waterclock graph …`: the jobs around one as a tree, over the HTTP API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import click
from rich.text import Text
from rich.tree import Tree

from engine.cli.client import Api
from engine.cli.options import over_api
from engine.cli.show import cell, print_json, print_tree

Edges = Mapping[str, list[tuple[str, str]]]
"""Job → what depends on it, and the condition."""


@click.command()
@click.argument("job_id")
@click.option(
    "--run",
    "time",
    metavar="TIME",
    help="What became of this time, RFC 3339 or ms, in the job and in those below it.",
)
@click.option("--depth", type=click.IntRange(0, 1000), help="So many levels up and down.")
@over_api
def graph(api: Api, job_id: str, as_json: bool, time: str | None, depth: int | None) -> None:
    """Show what a job depends on, and what on it, as a tree.

    What depends on several jobs is below the first of them; elsewhere an arrow stands for it.
    """
    if time is not None and depth is not None:
        raise click.UsageError("--depth does not go with --run")
    if time is None:
        found = api.get("jobs", job_id, "graph", depth=depth)
        nodes = {node["job_id"]: _job_words(node) for node in found["nodes"]}
    else:
        found = api.get("graphs", job_id, "runs", time)
        nodes = {run["job_id"]: _run_words(run) for run in found["runs"]}
    if as_json:
        print_json(found)
        return
    for tree in _trees(nodes, found["edges"]):
        print_tree(tree)
    if found["is_cut"]:
        click.echo("There are more jobs than these.", err=True)


def _trees(nodes: Mapping[str, Text], edges: list[dict[str, str]]) -> Iterator[Tree]:
    """Yield a tree for each job that depends on none of the others."""
    below: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for edge in edges:
        below[edge["from"]].append((edge["to"], edge["condition"]))
    dependents = {edge["to"] for edge in edges}
    shown: set[str] = set()
    for root in nodes:
        if root not in dependents:
            yield _tree(root, nodes, below, shown)


def _tree(root: str, nodes: Mapping[str, Text], below: Edges, shown: set[str]) -> Tree:
    tree = Tree(nodes[root])
    left = [(root, tree)]
    while left:
        job_id, branch = left.pop()
        shown.add(job_id)
        # One that is on its way to be shown is not shown twice.
        for dependent, condition in below.get(job_id, ()):
            words = nodes[dependent].copy()
            if condition != "succeeded":
                words.append(f"  when {job_id} has {condition}", style="dim")
            if dependent in shown:
                words.append("  ↑", style="dim")
                branch.add(words)
            else:
                shown.add(dependent)
                left.append((dependent, branch.add(words)))
    return tree


def _job_words(node: Mapping[str, Any]) -> Text:
    more = [
        "any" if node.get("join") == "any" else "",
        "latest" if node.get("match") == "latest" else "",
        "gate" if node.get("gate") else "",
        f"next {node['next_run_at']}" if node.get("next_run_at") else "",
    ]
    return _words(node["job_id"], node["state"], more)


def _run_words(run: Mapping[str, Any]) -> Text:
    attempts = run["attempt_count"]
    more = [
        run.get("reason", ""),
        f"{attempts} attempts" if attempts > 1 else "",
        f"for {', '.join(run['awaited'])}" if run.get("awaited") else "",
    ]
    return _words(run["job_id"], run["status"], more)


def _words(job_id: str, state: str, more: list[str]) -> Text:
    words = Text("  ").join([cell(job_id), cell(state)])
    for word in filter(None, more):
        words.append("  ").append_text(cell(word))
    return words
