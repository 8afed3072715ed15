"""Where the peers are, and how they get there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.peers.runtimes import ROOT
from bench.peers.table import PEERS
from engine.errors import Unusable

FOLDER = Path.home() / ".cache" / "waterclock-peers"


@dataclass(frozen=True, slots=True)
class Installation:
    """What runs need of the machine: the folder of the peers, and the Redis that they run on."""

    folder: Path
    redis: Path

    @classmethod
    def find(cls, folder: Path) -> Installation:
        """Return what `install` put into a folder. Raises Unusable if it is not there."""
        folder = folder.absolute()
        if (binary := folder / "redis" / "run").exists():
            return cls(folder, binary)
        raise Unusable(
            f"there are no peers in {folder}: run `python -m bench.peers install {folder}` first"
        )

    def server(self) -> str:
        """Return the name and version of the Redis."""
        said = subprocess.run(
            [self.redis, "--version"], capture_output=True, text=True, check=False
        )
        words = dict(word.split("=", 1) for word in said.stdout.split() if "=" in word)
        return f"redis {words.get('v', 'of no known version')}"


def install(folder: Path, say: Callable[[str], None]) -> bool:
    """Install the server and all peers below the folder, as far as that can be; return whether all
    could be. Says of each how it went."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = {"redis": _install_redis, **{n: peer.runtime.install for n, peer in PEERS.items()}}
    is_whole = True
    for name, step in steps.items():
        try:
            step(folder)
        except Unusable as error:
            is_whole = False
            say(f"{name}: not installed: {error.message}")
        else:
            say(f"{name}: {PEERS[name].runtime.version(folder) if name in PEERS else 'there'}")
    return is_whole


def _install_redis(folder: Path) -> None:
    ended = subprocess.run(
        [ROOT / ".ci" / "redis7", folder / "redis"], capture_output=True, text=True, check=False
    )
    if not ended.stdout.strip():
        raise Unusable(
            f"Debian's redis-server could not be unpacked: {ended.stderr.strip()[-500:]}"
        )
