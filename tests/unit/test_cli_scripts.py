"""`waterclock scripts export`: what a consumer in another language loads, and how it finds it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.scripts import FOLDER, Header, load
from engine.store import Store


def export(folder: Path) -> dict[str, Any]:
    """Return the manifest of what was exported into a folder."""
    answer = CliRunner().invoke(main, ["scripts", "export", str(folder)])
    assert answer.exit_code == 0, answer.output
    manifest: dict[str, Any] = json.loads((folder / "scripts.json").read_text("utf-8"))
    assert answer.output == f"{len(manifest)} scripts written to {folder}\n"
    return manifest


def test_every_script_is_exported_and_nothing_else(tmp_path: Path) -> None:
    names = {path.stem for path in FOLDER.glob("*.lua")}
    assert export(tmp_path / "new" / "folder").keys() == names
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {f"{name}.lua" for name in names} | {"scripts.json"}


def test_the_manifest_says_what_the_header_says(tmp_path: Path) -> None:
    manifest = export(tmp_path)
    header = Header.parse((FOLDER / "heartbeat_executions.lua").read_text("utf-8"))
    assert manifest["heartbeat_executions"] == {
        "file": "heartbeat_executions.lua",
        "sha": load("heartbeat_executions").sha,
        "keys": list(header.names("KEYS")),
        "args": list(header.names("ARGV")),
        "flags": ["allow-oom"],
    }


async def test_a_server_knows_each_file_by_the_sha_of_the_manifest(
    tmp_path: Path, store: Store
) -> None:
    for name, entry in export(tmp_path).items():
        text = (tmp_path / entry["file"]).read_bytes()
        assert hashlib.sha1(text).hexdigest() == entry["sha"]
        assert await store.client.script_load(text) == entry["sha"], name


def test_exporting_again_overwrites_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    (tmp_path / "run_job.lua").write_text("old", "utf-8")
    export(tmp_path)
    assert (tmp_path / "mine.txt").read_text("utf-8") == "mine"
    assert (tmp_path / "run_job.lua").read_text("utf-8") == load("run_job").text


@pytest.mark.parametrize("place", ["a file", "a file/below"])
def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("", "utf-8")
    answer = CliRunner().invoke(main, ["scripts", "export", str(tmp_path / place)])
    assert answer.exit_code in (1, 2)
    assert "Traceback" not in answer.output
    assert place.split("/")[0] in answer.output
