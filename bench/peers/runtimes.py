"""What a peer's programs need: how it is installed below one folder, found there, and started.

Each runtime has three methods: `install` puts it there, or raises Unusable and says why it cannot;
`command` returns the words that start the program, or raises Unusable if it is not there;
`version` returns what is there, to be read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine import __version__
from engine.errors import Unusable

ROOT = Path(__file__).parents[2]
ADAPTERS = Path(__file__).parent / "adapters"
JARS = [
    Path("/usr/share/java", name)
    for name in ("quartz2.jar", "slf4j-api.jar", "slf4j-nop.jar", "HikariCP.jar", "c3p0.jar")
]

_SAY_VERSIONS = """
import sys
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in sys.argv[1:]))
"""


class Runtime(Protocol):
    def install(self, folder: Path) -> None: ...

    def command(self, folder: Path) -> list[str]: ...

    def version(self, folder: Path) -> str: ...


@dataclass(frozen=True, slots=True)
class Own:
    """The Python that runs the harness, with the engine beside it."""

    adapter: str

    def install(self, folder: Path) -> None:
        pass

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-m", "bench.peers.adapters", self.adapter]

    def version(self, folder: Path) -> str:
        return f"waterclock {__version__}"


@dataclass(frozen=True, slots=True)
class Venv:
    """A Python environment of the peer's own: what they ask of redis-py is not the same."""

    adapter: str
    packages: tuple[str, ...]
    """Requirements; the first ones are what the versions are told of."""
    told: int = 1

    def _python(self, folder: Path) -> Path:
        return folder / self.adapter / "bin" / "python"

    def install(self, folder: Path) -> None:
        python = self._python(folder)
        if not python.exists():
            _do(sys.executable, "-m", "venv", str(folder / self.adapter))
        _do(str(python), "-m", "pip", "install", "--quiet", *self.packages)

    def command(self, folder: Path) -> list[str]:
        return [_found(self._python(folder)), "-m", "bench.peers.adapters", self.adapter]

    def version(self, folder: Path) -> str:
        names = [package.partition("[")[0].partition("<")[0] for package in self.packages]
        python = _found(self._python(folder))
        return _output(python, "-c", _SAY_VERSIONS, *names[: self.told])


@dataclass(frozen=True, slots=True)
class Npm:
    """A package for Node, in the folder `node`."""

    script: str
    package: str
    others: tuple[str, ...] = ()
    """What it leaves to its user to install."""

    def install(self, folder: Path) -> None:
        packages = (self.package, *self.others)
        _do("npm", "install", "--silent", "--prefix", str(folder / "node"), *packages)

    def command(self, folder: Path) -> list[str]:
        _found(folder / "node" / "node_modules" / self.package)
        # A script finds packages beside itself, and it lies in this repository.
        modules = f"NODE_PATH={folder / 'node' / 'node_modules'}"
        return ["env", modules, _on_path("node"), str(ADAPTERS / self.script)]

    def version(self, folder: Path) -> str:
        manifest = folder / "node" / "node_modules" / self.package / "package.json"
        say = "const {name, version} = require(process.argv[1]); console.log(name, version)"
        node = _output("node", "--version").removeprefix("v")
        return f"{_output('node', '-e', say, _found(manifest))}, Node {node}"


@dataclass(frozen=True, slots=True)
class Debian:
    """Packages of Debian, on the machine itself."""

    program: str
    """What runs a script."""
    script: str
    packages: tuple[str, ...]
    """The first ones are what the versions are told of."""
    jars: Sequence[Path] = ()
    told: int = 1

    def install(self, folder: Path) -> None:
        if os.geteuid() != 0:
            raise Unusable(f"needs root: `apt-get install {' '.join(self.packages)}`")
        _do("apt-get", "install", "--yes", "-qq", "--no-install-recommends", *self.packages)

    def command(self, folder: Path) -> list[str]:
        for package in self.packages[: self.told]:
            if not _output("dpkg-query", "-W", "-f", "${Version}", package):
                raise Unusable(f"the package {package} is not installed")
        path = ["-cp", ":".join(map(str, self.jars))] if self.jars else []
        return [_on_path(self.program), *path, str(ADAPTERS / self.script)]

    def version(self, folder: Path) -> str:
        told = self.packages[: self.told]
        return _output("dpkg-query", "-W", "-f", "${Package} ${Version}, ", *told).rstrip(", ")


def _found(path: Path) -> str:
    if not path.exists():
        raise Unusable(f"{path} is not there")
    return str(path)


def _on_path(program: str) -> str:
    if found := shutil.which(program):
        return found
    raise Unusable(f"there is no {program} on the path")


def _output(*words: str) -> str:
    """Return what a command prints, or nothing if it fails."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return ended.stdout.strip()


def _do(*words: str) -> None:
    """Run a command; raises Unusable with the end of what it said if it fails."""
    _on_path(words[0])
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Unusable(f"`{' '.join(words[:4])} …`: {ended.stderr.strip()[-500:]}")
