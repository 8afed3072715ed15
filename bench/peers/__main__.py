"""`python -m bench.peers install [DIR]`: install what `python -m bench peers` runs beside us."""

from __future__ import annotations

from pathlib import Path

import click

from bench.peers.install import FOLDER, install
from bench.peers.table import PEERS
from engine.errors import Unusable


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The peers that `python -m bench peers` compares with."""


@main.command("install")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=FOLDER)
def _install(folder: Path) -> None:
    """Install all peers below FOLDER: environments for Python and Node, an unpacked Redis, and, as
    root, packages of Debian. What is there is brought up to date. Exit code 1 if one is missing."""
    if not install(folder.absolute(), click.echo):
        raise SystemExit(1)


@main.command("list")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=FOLDER)
def _list(folder: Path) -> None:
    """List the peers, their versions and settings."""
    for name, peer in PEERS.items():
        try:
            peer.runtime.command(folder.absolute())
            version = peer.runtime.version(folder.absolute())
        except Unusable as error:
            version = f"not installed: {error}"
        click.echo(f"{name}: {version}\n    {peer.settings}")


if __name__ == "__main__":
    main()
