"""`waterclock events`: what it shows of a stream, and how it goes on when one is cut."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from itertools import islice
from typing import Any

import click
import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.cli.client import Api, Refused, Unreachable
from engine.cli.events import follow, read_events

EVENTS = import_module("engine.cli.events")
"""The module; in the package its name is the command's."""

A: dict[str, Any] = {"event": "created", "at": "2027-01-15T08:00:00.000Z", "job_id": "a"}
B: dict[str, Any] = {
    "event": "failed",
    "at": "2027-01-15T08:00:01.000Z",
    "job_id": "b",
    "execution_id": "b@1800000000000",
    "scheduled_for": "2027-01-15T08:00:00.000Z",
    "attempt": 2,
    "worker": None,
    "error": "HTTP 503: \x1b[31mbusy",
}
GAP = {"event": "gap", "until": "2027-01-15T08:00:00.000Z"}


def told(event: dict[str, Any], place: str | None = None) -> bytes:
    """Return an event as the API sends it."""
    tail = b"id: %b\n" % place.encode() if place else b""
    return b"event: %b\ndata: %b\n%b\n" % (
        event["event"].encode(),
        json.dumps(event).encode(),
        tail,
    )


class Streaming(ThreadingHTTPServer):
    """Answers each request with the next of `answers`, a stream or a problem, and then cuts."""

    def __init__(self, *answers: bytes | dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = [*answers]
        self.asked: list[str] = []

    @property
    def api(self) -> Api:
        return Api(f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    server: Streaming

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        answer = self.server.answers.pop(0)
        is_stream = isinstance(answer, bytes)
        self.send_response(200 if is_stream else 503)
        self.end_headers()
        self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EVENTS, "WAIT_S", 0)


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Any]:
    servers: list[Streaming] = []

    def start(*answers: bytes | dict[str, Any]) -> Streaming:
        server = Streaming(*answers)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_stream_is_read_as_it_is_written() -> None:
    lines = b"retry: 2000\n\n:\n\n" + told(A) + told(B, "p1") + b"id: p2\n\n" + b"data: {"
    assert [*read_events(lines.splitlines(keepends=True))] == [(A, None), (B, "p1"), (None, "p2")]


def test_after_a_cut_it_goes_on_behind_the_last_read_that_was_there_in_full(serve: Any) -> None:
    server = serve(
        told(A) + told(B, "p1") + b"id: p2\n\n" + told(A),
        {"code": "busy", "detail": "too many"},
        told(A) + told(B, "p3"),
    )
    heard = [*islice(follow(server.api, kind=["dead", "failed"], job_id="a"), 4)]
    assert heard == [A, {**B, "position": "p1"}, A, {**B, "position": "p3"}]
    wanted = "kind=dead&kind=failed&job_id=a"
    path = "/v1/events"
    assert server.asked == [f"{path}?{wanted}", *[f"{path}?after=p2&{wanted}"] * 2]


def test_it_begins_where_it_is_told_to_and_tells_of_a_gap_at_once(serve: Any) -> None:
    server = serve(told(GAP))
    assert next(follow(server.api, "p0")) == GAP
    assert server.asked == ["/v1/events?after=p0"]


def test_a_refusal_that_will_not_pass_ends_it(serve: Any) -> None:
    server = serve(told(A, "p1"), {"code": "unauthorized", "detail": "no"})
    with pytest.raises(Refused):
        [*follow(server.api)]


@pytest.mark.parametrize("answer", [{"code": "busy", "detail": "too many"}, None])
def test_what_fails_at_the_start_is_an_error(serve: Any, answer: dict[str, Any] | None) -> None:
    api = serve(answer).api if answer else Api("http://127.0.0.1:1")
    with pytest.raises(click.ClickException) as refusal:
        next(follow(api))
    assert isinstance(refusal.value, Refused if answer else Unreachable)


def run(monkeypatch: pytest.MonkeyPatch, *args: str) -> Any:
    """Run the command; after two events somebody presses Ctrl-C."""
    asked: list[Any] = []

    def heard(api: Api, since: str | None, **query: Any) -> Iterator[dict[str, Any]]:
        asked.append((since, query))
        yield A
        yield {**B, "position": "p1"}
        raise KeyboardInterrupt

    monkeypatch.setattr(EVENTS, "follow", heard)
    done = CliRunner().invoke(main, ["events", *args])
    return done, asked


def test_for_people_an_event_is_a_line_without_what_could_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, _ = run(monkeypatch)
    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first.split() == ["2027-01-15T08:00:00.000Z", "created", "a"]
    assert second.split() == [
        "2027-01-15T08:00:01.000Z",
        "failed",
        "b@1800000000000",
        "attempt=2",
        "error=HTTP",
        "503:",
        "\\x1b[31mbusy",
    ]
    assert first.index("  a") == second.index("  b@")


def test_for_programs_it_is_an_object_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    done, asked = run(
        monkeypatch, "--json", "--kind", "dead", "--kind", "failed", "--prefix", "x", "--since", "0"
    )
    assert done.exit_code == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [A, {**B, "position": "p1"}]
    assert asked == [("0", {"kind": ("dead", "failed"), "prefix": "x"})]
