"""Headers of a job's own that could become something else: rows 44 to 47 of the abuse list."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, Read, create, pointers, refused

clock = calling.clock
client = calling.client
keyspace = calling.keyspace

URL = "https://example.com/"
ALL = ""
"""The place of what is wrong with all of them together."""


def with_headers(headers: Any) -> dict[str, Any]:
    return {**CRON, "target": {"type": "http", "url": URL, "headers": headers}}


RESERVED = (
    *("Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "Upgrade", "TE"),
    *("Trailer", "Keep-Alive", "Proxy-Connection", "Prefer", "traceparent", "TraceState"),
    *("webhook-signature", "Webhook-Id", "webhook-timestamp", "Webhook-Anything"),
    *("Idempotency-Key", "Waterclock-Job", "waterclock-anything"),
)


REFUSED = [
    ("row_44_crlf", {"X": "a\r\nX-Evil: 1"}, "X"),
    ("row_44_line_feed", {"X": "a\nX-Evil: 1"}, "X"),
    ("row_44_carriage_return", {"X": "a\r"}, "X"),
    ("row_44_nul", {"X": "a\0b"}, "X"),
    ("row_44_escape", {"X": "a\x1b[2J"}, "X"),
    ("row_44_delete", {"X": "\x7f"}, "X"),
    ("row_44_c1_control", {"X": "\x85"}, "X"),
    *((f"row_45_{name.lower()}", {name: "1"}, name) for name in RESERVED),
    ("row_45_pseudo_header", {":authority": "evil.example"}, ":authority"),
    ("row_46_space", {"X Y": "1"}, "X Y"),
    ("row_46_colon", {"X:": "1"}, "X:"),
    ("row_46_empty", {"": "1"}, ""),
    ("row_46_line_break_in_the_name", {"X\r\nY": "1"}, "X\r\nY"),
    ("row_46_not_ascii", {"Ü": "1"}, "Ü"),
    ("row_46_long_name", {"x" * 5_000: "1"}, "x" * 5_000),
    ("row_46_long_value", {"X": "1" * 8_193}, "X"),
    ("row_46_too_many", {f"X-{n}": "1" for n in range(200)}, ALL),
    ("row_46_too_much", {f"X-{n}": "1" * 8_000 for n in range(5)}, ALL),
    ("row_46_twice", {"X": "1", "x": "2"}, ALL),
    ("row_47_euro", {"X": "€"}, "X"),
    ("row_47_emoji", {"X": "☃"}, "X"),
]


@pytest.mark.parametrize(
    ("headers", "name"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
async def test_a_header_that_could_become_another_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, keyspace: Read, headers: dict[str, str], name: str
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json=with_headers(headers))
    problem = refused(answer, 400, "bad_input")
    is_all = name == ALL and "" not in headers
    assert pointers(problem) == ["/target/headers" + ("" if is_all else f"/{name}")]
    assert await keyspace() == before


async def test_ordinary_headers_are_kept_to_the_last_of_their_bounds(
    client: httpx.AsyncClient,
) -> None:
    headers = {
        "Authorization": "Bearer a.b-c_d~e+f/g=",
        "X-Latin": "\xa0ÿ\t !~",
        "!#$%&'*+.^_`|~-09azAZ": "",
        "x" * 256: "1" * 8_192,
        **{f"X-{n}": "1" for n in range(46)},
    }
    shown = await create(client, with_headers(headers))
    assert shown["target"]["headers"] == headers
