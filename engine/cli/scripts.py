"""`waterclock scripts`: the Lua scripts, put together for consumers in other languages."""

from __future__ import annotations

from pathlib import Path

import click

from engine import codec
from engine.cli.options import json_option
from engine.cli.show import print_json
from engine.errors import Unusable
from engine.scripts import FOLDER, Header, load

MANIFEST = "scripts.json"


@click.group()
def scripts() -> None:
    """The Lua scripts, for consumers in other languages.

    lua/README.md is their contract.
    """


@scripts.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@json_option
def export(folder: Path, as_json: bool) -> None:
    """Write each script as one file into DIR, and scripts.json.

    A file is what SCRIPT LOAD takes, byte for byte. scripts.json names for each its file, its SHA-1
    for EVALSHA, its KEYS and ARGV in their order, and its flags. Files of these names are
    overwritten; nothing else in DIR is touched.
    """
    manifest = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(FOLDER.glob("*.lua")):
            script, header = load(path.stem), Header.parse(path.read_text("utf-8"))
            # Bytes, or Windows would change the line ends, and with them the SHA.
            (folder / path.name).write_bytes(script.text.encode())
            manifest[script.name] = {
                "file": path.name,
                "sha": script.sha,
                "keys": header.names("KEYS"),
                "args": header.names("ARGV"),
                "flags": header.names("Flags"),
            }
        (folder / MANIFEST).write_bytes(codec.dump_json(manifest))
    except OSError as error:
        raise Unusable(f"cannot write to {folder}: {error.strerror}") from None
    if as_json:
        print_json(manifest)
    else:
        click.echo(f"{len(manifest)} scripts written to {folder}")
