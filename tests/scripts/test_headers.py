"""The house rules of `lua/`: a script's header is its contract, and its body keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CODES
from engine.scripts import FOLDER, Header, compose, load

VERBS = sorted(path.stem for path in FOLDER.glob("*.lua"))
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.lua"))

SECTIONS = ["Safe because", "KEYS", "ARGV", "Reply", "Error"]
FLAGS = {"allow-oom", "no-writes"}
MOST_LINES = 80
FORBIDDEN = {
    r"\bpcall\s*\(": "pcall: a write that fails must fail the script",
    r"\berror\s*\(": "error(: a refusal is an error reply, before the first write",
    r"redis\.call\(\s*['\"]KEYS['\"]": "KEYS: walks the whole keyspace",
    r"['\"][^'\"\n]*wc:": "a key: engine/keys.py spells them",
    r"\bcmsgpack\b": "cmsgpack: the fake server has none",
    r"\A#!": "a first line: the loader adds it",
}

_COMMENT_OR_STRING = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_REFUSAL = re.compile(r"error_reply\(\s*['\"](\w+)")
_INCLUDE = "--@include "


def code_of(source: str) -> str:
    """Return Lua source without its comments."""
    return _COMMENT_OR_STRING.sub(lambda m: "" if m[0].startswith("--") else m[0], source)


def faults_of_file(source: str) -> Iterator[str]:
    """Yield what is wrong in any Lua file, verb or shared."""
    for pattern, why in FORBIDDEN.items():
        if re.search(pattern, code_of(source)):
            yield why


def faults_of_verb(name: str, folder: Path) -> Iterator[str]:
    """Yield where the body of a verb departs from its header."""
    source = (folder / f"{name}.lua").read_text("utf-8")
    header = Header.parse(source)
    flags = header.names("Flags")
    if not header.about.strip():
        yield "does not say what it does"
    if list(header.sections) != SECTIONS + ["Flags"] * bool(flags):
        yield f"has the sections {list(header.sections)}"
    if not all(text.strip() for text in header.sections.values()):
        yield "has an empty section"
    if not FLAGS.issuperset(flags):
        yield f"has unknown flags {flags}"
    yield from _faults_of_bindings(header, _body(source))
    yield from _faults_of_codes(header, load(name, folder=folder).text)


def _body(source: str) -> list[str]:
    """Return the lines after the header comment."""
    lines = source.splitlines()
    own = [not line.startswith("--") or line.startswith(_INCLUDE) for line in lines]
    return lines[own.index(True) :] if True in own else []


def _faults_of_bindings(header: Header, body: list[str]) -> Iterator[str]:
    includes = [line for line in body if line.startswith(_INCLUDE)]
    code = body[len(includes) :]
    if body[: len(includes)] != includes:
        yield "has an include after its first code"
    if len(code) > MOST_LINES:
        yield f"has {len(code)} lines of its own"
    wanted = []
    for label in ("KEYS", "ARGV"):
        for place, name in enumerate(header.names(label), start=1):
            value = rf"{label}\[{place}\]"
            if name.endswith(
                "..."
            ):  # what follows the names starts here; the body calls it its way
                wanted.append(rf"local \w+ = {place}")
            else:
                wanted.append(rf"local {name} = (?:{value}|tonumber\({value}\))")
    bound = [line for line in code if line.strip()]
    for pattern, line in zip(wanted, [*bound, *[""] * len(wanted)], strict=False):
        if not re.fullmatch(pattern, line):
            yield f"should bind {pattern} where it says {line!r}"
    for line in bound[len(wanted) :]:
        if re.match(r"local \w+ = (?:tonumber\()?(?:KEYS|ARGV)\[\d+\]", line):
            yield f"binds what its header does not name: {line!r}"


def _faults_of_codes(header: Header, text: str) -> Iterator[str]:
    # FROZEN is for the loader to say, before any script.
    used = set(_REFUSAL.findall(code_of(text))) - {"FROZEN"}
    told = set(re.findall(r"\b[A-Z][A-Z_]+\b", header.sections.get("Error", "")))
    if unknown := {code for code in used if code != code.upper() or code.lower() not in CODES}:
        yield f"refuses with unknown codes {sorted(unknown)}"
    if used != told:
        yield f"refuses with {sorted(used)}, and its header says {sorted(told)}"


def test_there_are_scripts_to_hold_to_the_rules() -> None:
    assert VERBS, f"no scripts in {FOLDER}"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_what_its_header_says(name: str) -> None:
    assert list(faults_of_verb(name, FOLDER)) == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_nothing_forbidden(name: str) -> None:
    assert list(faults_of_file((FOLDER / name).read_text("utf-8"))) == []


@pytest.mark.parametrize("name", VERBS)
def test_a_consumer_in_another_language_gets_the_whole_text(name: str) -> None:
    assert compose(name).startswith("#!lua")
    assert compose(name).partition("\n")[2] == compose(name, shebang=False)


def test_every_shared_file_is_used() -> None:
    texts = [load(name).origins for name in VERBS]
    used = {origin.rpartition(":")[0] for origins in texts for origin in origins}
    assert used == {f"lua/{name}" for name in FILES}


# The rules themselves: a script that keeps them all, and one change that breaks each.

GOOD = """\
-- Fire due jobs.
-- Safe because: it compares; error( and pcall( in a comment are prose.
-- KEYS: fence buckets
-- ARGV: token now rows...
--       a row is id due_at
-- Reply: how many
-- Error: FENCED
-- Flags: allow-oom
--@include lib/fence
local fence = KEYS[1]
local buckets = KEYS[2]
local token = ARGV[1]
local now = tonumber(ARGV[2])
local row = 3

return refuse_old_grant(fence, token) or redis.call('ZCARD', buckets) -- 'wc:' in prose
"""
SHARED = "local function refuse_old_grant() return redis.error_reply('FENCED by another') end\n"


def faults(folder: Path, verb: str, shared: str = SHARED) -> list[str]:
    (folder / "lib").mkdir()
    (folder / "lib" / "fence.lua").write_text(shared, "utf-8")
    (folder / "lib" / "more.lua").write_text("", "utf-8")
    (folder / "verb.lua").write_text(verb, "utf-8")
    return [*faults_of_verb("verb", folder), *faults_of_file(verb)]


def test_a_script_that_keeps_the_rules_has_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("-- Fire due jobs.\n", "", "does not say what it does"),
        ("-- Safe because:", "-- Because:", "has the sections"),
        ("-- Reply: how many\n", "", "has the sections"),
        ("-- Error: FENCED\n", "-- Error:\n", "has an empty section"),
        ("allow-oom", "allow-all", "has unknown flags"),
        ("KEYS: fence buckets", "KEYS: buckets fence", "should bind local buckets"),
        ("KEYS: fence buckets", "KEYS: fence", "should bind local token"),
        ("token now rows", "token rows", "should bind local \\w+ = 2"),
        ("local row = 3", "local row = 4", "should bind local \\w+ = 3"),
        ("local row = 3", "local row = 3\nlocal more = ARGV[3]", "binds what its header does not"),
        ("KEYS[2]", "KEYS[3]", "should bind local buckets"),
        ("return refuse", "--@include lib/more\nreturn refuse", "include after its first code"),
        ("\n\nreturn", "\n" * 80 + "return", "lines of its own"),
        ("Error: FENCED", "Error: none", "refuses with ['FENCED'], and its header says []"),
        ("Error: FENCED", "Error: FENCED NOT_FOUND", "its header says ['FENCED', 'NOT_FOUND']"),
        ("return refuse", "return pcall(f) or refuse", "pcall:"),
        ("return refuse", "return redis.pcall('SET') or refuse", "pcall:"),
        ("return refuse", "return error('no') or refuse", "error(:"),
        ("'ZCARD'", "'KEYS'", "KEYS:"),
        ("'ZCARD'", "'wc:due'", "a key:"),
        ("'ZCARD'", "cmsgpack.pack(1)", "cmsgpack:"),
        ("-- Fire", "#!lua\n-- Fire", "a first line:"),
    ],
)
def test_a_script_that_breaks_a_rule_is_told_which(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    assert old in GOOD
    found = faults(tmp_path, GOOD.replace(old, new, 1))
    assert any(fault in one for one in found), found


@pytest.mark.parametrize("code", ["NO_SUCH_CODE", "Fenced"])
def test_a_refusal_with_an_unknown_code_is_a_fault(tmp_path: Path, code: str) -> None:
    found = faults(tmp_path, GOOD, SHARED.replace("FENCED", code))
    assert f"refuses with unknown codes ['{code}']" in found
