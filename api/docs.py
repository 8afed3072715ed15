"""The API's description as a page: made of the OpenAPI document, with no script and no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.backend import backend_of
from api.docs_style import STYLE
from api.openapi import document
from api.operations import contract

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
_ERROR = 400
"""Statuses from here on are refusals."""


class _Shown(NamedTuple):
    """An operation of the document."""

    method: str
    path: str
    said: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.said["operationId"])

    def verb(self) -> str:
        return f'<span class="verb {self.method.lower()}">{self.method}</span>'


@contract(gives=str, yields="text/html")
async def show(request: Request) -> Response:
    """Answer the description of this API as a page."""
    headers = {
        "Content-Security-Policy": _POLICY,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    shown = page(asks_for_keys=backend_of(request).gate.asks_for_keys)
    return Response(shown, headers=headers, media_type="text/html")


@cache
def page(*, asks_for_keys: bool = True) -> str:
    """Return the page for the whole API."""
    return render(document(asks_for_keys=asks_for_keys))


def render(document: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as HTML."""
    info, components = document["info"], document["components"]
    parts = {tag["name"]: (tag["description"], list[_Shown]()) for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            parts[said["tags"][0]][1].append(_Shown(method.upper(), path, said))
    body = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        f"<p>{_text(info['description'])}</p>",
        '<p>This page is made of <a href="/openapi.json">openapi.json</a>. Fields with a'
        ' <span class="needed">*</span> are required.</p>',
    ]
    for part, (about, operations) in parts.items():
        body.append(f'<h2 id="{part}">{part}</h2><p>{_text(about)}</p>')
        body += [_section(one, components["responses"]) for one in operations]
    body.append('<h2 id="webhooks">what targets are sent</h2><p>Calls of jobs of type http.</p>')
    for methods in document["webhooks"].values():
        for method, said in methods.items():
            body.append(_section(_Shown(method.upper(), "the target's URL", said), {}))
    body.append('<h2 id="schemas">bodies and answers</h2><p>By their names above.</p>')
    schemas = components["schemas"]
    body += [_schema_section(name, schemas[name]) for name in sorted(schemas)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style></head>"
        f"<body><nav>{_menu(parts)}</nav><main>{''.join(body)}</main></body></html>"
    )


def _menu(parts: Mapping[str, tuple[str, Iterable[_Shown]]]) -> str:
    lists = []
    for part, (_, operations) in parts.items():
        items = "".join(
            f'<li><a href="#{one.id}">{one.verb()}<span>{_breakable(one.path)}</span></a></li>'
            for one in operations
        )
        lists.append(f'<a href="#{part}">{part}</a><ul>{items}</ul>')
    ends = '<a href="#webhooks">what targets are sent</a><a href="#schemas">bodies and answers</a>'
    return "".join(lists) + ends


def _breakable(path: str) -> str:
    """Return a path that may be broken before a slash, where it is too long for its line."""
    return escape(path).replace("/", "<wbr>/")


def _section(shown: _Shown, shared: Mapping[str, Any]) -> str:
    said = shown.said
    parts = [
        f'<section id="{shown.id}"><h3>{shown.verb()}<code>{escape(shown.path)}</code>'
        f'<a href="#{shown.id}">{shown.id}</a></h3><p>{_text(said["description"])}</p>'
    ]
    if shared:
        parts.append(f'<p class="quiet">{_needs(said)}</p>')
    for place in ("path", "query", "header"):
        rows = [
            (one["name"], _kind(one["schema"]), _about(one), one.get("required", False))
            for one in said["parameters"]
            if one["in"] == place
        ]
        if rows:
            parts.append(f"<h4>{place}</h4>{_table(rows)}")
    parts += _bodies(shown)
    answers = [*_answers(said, shared)]
    good = "".join(row for status, row in answers if int(status.replace("XX", "00")) < _ERROR)
    bad = "".join(row for status, row in answers if int(status.replace("XX", "00")) >= _ERROR)
    parts.append(f'<h4>answers</h4><div class="scroll"><table>{good}</table></div>')
    parts.append(f"<details><summary>Refusals</summary><table>{bad}</table></details></section>")
    return "".join(parts)


def _bodies(shown: _Shown) -> Iterator[str]:
    body = shown.said.get("requestBody", {})
    if body:
        need = "" if body.get("required", True) else ", which need not be sent"
        yield f"<h4>body{need}</h4>"
        if "description" in body:
            yield f"<p>{_text(body['description'])}</p>"
    for media, content in body.get("content", {}).items():
        yield f"<p><code>{media}</code> {_kind(content['schema'])}</p>"
        # A second media type has the same examples.
        if media == next(iter(body["content"])):
            for example in content.get("examples", {}).values():
                call = _curl(shown.method, shown.path, media, example["value"])
                yield f'<p class="quiet">{escape(example["summary"])}:</p><pre>{escape(call)}</pre>'


def _needs(said: Mapping[str, Any]) -> str:
    scope = said.get("x-scope")
    if scope is None:
        return "Needs no key."
    if "security" in said:
        return f"Needs a key of scope <code>{scope}</code>."
    return f"Needs no key here; where keys are asked for, one of scope <code>{scope}</code>."


def _answers(said: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each status with its row."""
    for status, answer in said["responses"].items():
        ref = answer.get("$ref", "").rpartition("/")[2]
        shown = shared[ref] if ref else answer
        kinds = ", ".join(_kind(content["schema"]) for content in shown.get("content", {}).values())
        about = _text(shown["description"])
        yield (
            status,
            f'<tr><td><code>{status}</code></td><td>{about}</td><td class="kind">{kinds}</td></tr>',
        )


def _schema_section(name: str, schema: Mapping[str, Any]) -> str:
    about = f"<p>{_text(schema['description'])}</p>" if "description" in schema else ""
    needed = schema.get("required", ())
    rows = (
        (field, _kind(said), _about(said), field in needed)
        for field, said in schema.get("properties", {}).items()
    )
    return f'<section id="schema-{name}"><h3>{escape(name)}</h3>{about}{_table(rows)}</section>'


def _table(rows: Iterable[tuple[str, str, str, bool]]) -> str:
    star = ' <span class="needed" title="required">*</span>'
    lines = (
        f"<tr><td><code>{escape(name)}</code>{star if is_needed else ''}</td>"
        f'<td class="kind">{kind}</td><td>{about}</td></tr>'
        for name, kind, about, is_needed in rows
    )
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _kind(schema: Mapping[str, Any]) -> str:
    """Return what a schema takes, in a few words of HTML."""
    if ref := schema.get("$ref"):
        name = ref.rpartition("/")[2]
        return f'<a href="#schema-{name}">{escape(name)}</a>'
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[word]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    words = [kind] if isinstance(kind, str) else kind
    return escape(" or ".join(schema.get("format", w) if w == "string" else w for w in words))


def _about(said: Mapping[str, Any]) -> str:
    """Return the description of a field or parameter, with its default and its bounds."""
    schema = said.get("schema", said)
    text = [said.get("description") or schema.get("description") or ""]
    if "default" in schema and schema["default"] not in ("", None, [], {}):
        text.append(f"Default: `{json.dumps(schema['default'])}`.")
    for one in (schema, *schema.get("anyOf", ())):
        low, high = one.get("minimum"), one.get("maximum")
        if low is not None and high is not None:
            text.append(f"From {low:,} to {high:,}.")
    return _text(" ".join(part for part in text if part))


def _text(text: str) -> str:
    """Return plain text as HTML; what stands between backquotes is code."""
    quoted = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(quoted))


def _curl(method: str, path: str, media: str, value: object) -> str:
    body = json.dumps(value, indent=2).replace("'", "'\\''")
    return (
        f"curl -X {method} http://127.0.0.1:8787{path} \\\n  -H 'Content-Type: {media}' -d '{body}'"
    )
