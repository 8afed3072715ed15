"""JSON and YAML, read within bounds and written: the only door to PyYAML.

Nothing is constructed but mappings, lists, texts, numbers, booleans and null: tags for objects are
refused, and what looks like a date stays the text that it is. A repeated key is refused, since one
of the two would vanish. Aliases are counted as what they stand for, so a few lines cannot become a
billion nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from engine.errors import BadInput

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML was built without libyaml: the same, and ten times slower.
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MAX_BYTES = 8 * 1024 * 1024
MAX_NODES = 500_000
MAX_DEPTH = 100

_BREAKS = re.compile("[\n\x85\u2028\u2029]")
_BLANK = re.compile(r"\s*")
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_WIDTH = 100


Place = tuple[str | int, ...]
"""The keys and positions that lead to a value of a document."""


def read_documents(text: str, *, plain: bool = False) -> list[Any]:
    """Return the documents of a text: JSON values one after the other, or YAML documents. With
    `plain` words of YAML mean what they do in its version 1.2: `on`, `no`, `010` and `12:30` are
    texts.

    Refuses with BadInput what is neither, and what is over 8 MiB, half a million nodes or 100
    levels.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise BadInput(f"more than {MAX_BYTES >> 20} MiB; split the file")
    if text.lstrip().startswith(("{", "[", '"')):
        try:
            return _json_values(text)
        except json.JSONDecodeError as error:
            # YAML has braces, too; what is neither is nearly always JSON with a slip.
            try:
                return _yaml_documents(text, plain)
            except BadInput:
                raise BadInput(
                    f"not JSON at line {error.lineno}, character {error.colno}: {error.msg}"
                ) from None
        except ValueError:
            # Python reads no number of more than 4,300 digits.
            raise BadInput("not JSON: a number has too many digits") from None
    return _yaml_documents(text, plain)


def lines_of(text: str) -> dict[Place, int]:
    """Return the line, from 1, of each value of the one document of a text that was read; an empty
    dict for JSON that is no YAML."""
    try:
        return dict(_lines(yaml.compose(text, _SafeLoader), ()))
    except yaml.YAMLError:
        return {}


def _lines(node: yaml.Node | None, place: Place) -> Iterator[tuple[Place, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            at = (*place, str(key.value))
            yield at, key.start_mark.line + 1
            yield from _lines(value, at)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, number), value.start_mark.line + 1
            yield from _lines(value, (*place, number))


def write_yaml(value: Any) -> str:
    """Return a value as YAML that reads back as the same, `plain` or not. Keys keep their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def read_json(text: str) -> Any:
    """Return the one JSON value of a text. Refuses with BadInput what is none, or out of bounds."""
    try:
        values = _json_values(text)
    except ValueError as error:
        raise BadInput(f"not JSON: {error}") from None
    if len(values) != 1:
        raise BadInput(f"not one JSON value: there are {len(values)}")
    return values[0]


def _json_values(text: str) -> list[Any]:
    _check_depth(text)
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
    values, at = [], _skip(text, 0)
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
        at = _skip(text, at)
    return values


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _check_depth(text: str) -> None:
    """Count brackets before the decoder recurses; those within strings are left out."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text):
        mark = found[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth > MAX_DEPTH:
            raise _too_deep()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _twice(next(name for name, _ in pairs if sum(n == name for n, _ in pairs) > 1))
    return values


def _no_constant(name: str) -> Any:
    raise BadInput(f"{name} is no number of JSON")


class _Loader(_SafeLoader):
    """Reads the kinds that JSON has."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        named = [key for key, _ in node.value if key.tag != _MERGE]
        names = [(key.tag, key.value) for key in named if isinstance(key, yaml.ScalarNode)]
        if len(names) < len(named):
            raise BadInput(f"{_mark(node.start_mark)}: a key that is no text")
        for place, name in enumerate(names):
            if name in names[:place]:
                raise BadInput(f"{_mark(named[place].start_mark)}: {_twice(name[1]).message}")
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _PlainLoader(_Loader):
    """Reads words as the core schema of YAML 1.2 does, but octal and hexadecimal numbers, and
    refuses keys that JSON could not have."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 PyYAML's own way

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag not in (_TEXT, _MERGE):
                raise BadInput(f"{_mark(key.start_mark)}: the key {key.value} needs quotes")
        return super().construct_mapping(node, deep)


_PLAIN = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?",
        "-+0123456789.",
    ),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and quotes what either version of YAML would take for something else."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [*resolvers] for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # In the other styles PyYAML loses some of them.
        style = '"' if _BREAKS.search(text) else None
        return self.represent_scalar(_TEXT, text, style)


_Dumper.add_representer(str, _Dumper.represent_text)

for _name, (_pattern, _first) in _PLAIN.items():
    for _reader in (_PlainLoader, _Dumper):
        _resolver = re.compile(f"^(?:{_pattern})$")
        _reader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _resolver, [*_first])


def _yaml_documents(text: str, plain: bool) -> list[Any]:
    loader = _PlainLoader if plain else _Loader
    try:
        _check_size(text)
        return [document for document in yaml.load_all(text, loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        where = _mark(error.problem_mark or error.context_mark)
        hint = "; quote a text that begins with *" if "alias" in str(error.context) else ""
        raise BadInput(f"not YAML at {where}: {error.problem or error.context}{hint}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"not YAML: {' '.join(str(error).split())[:200]}") from None
    except ValueError as error:
        # A number that Python will not read: thousands of digits, or a sexagesimal one of none.
        raise BadInput(f"not YAML: {error}") from None


def _check_size(text: str) -> None:
    """Count nodes and levels as they are parsed, an alias as the nodes that it stands for."""
    total, sizes = 0, dict[str, int | None]()
    open_nodes: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, _SafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(str(event.anchor), 0)
            if size is None:
                raise BadInput(f"{_mark(event.start_mark)}: an alias of what it stands in")
            total += size
        elif isinstance(event, yaml.CollectionStartEvent):
            total += 1
            open_nodes.append((event.anchor, total))
            if event.anchor:
                sizes[event.anchor] = None
            if len(open_nodes) > MAX_DEPTH:
                raise _too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if total > MAX_NODES:
            raise BadInput(f"more than {MAX_NODES} values, aliases counted; split the file")


def _mark(mark: Any) -> str:
    return f"line {mark.line + 1}, character {mark.column + 1}" if mark else "an unknown place"


def _twice(name: object) -> BadInput:
    return BadInput(f"the key {str(name)[:64]!r} is there twice in one mapping; keep one of them")


def _too_deep() -> BadInput:
    return BadInput(f"nested more than {MAX_DEPTH} levels deep")
