"""The command line's HTTP client, against a server that answers what a test tells it to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import click
import pytest

from engine.cli.client import Api, Refused
from engine.errors import BadInput


class Answering(HTTPServer):
    """Answers every request with `status` and `body`, and keeps what was asked."""

    status = 200
    body = b"{}"
    link = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[tuple[str, str, str | None, bytes]] = []
        self.keys: list[str | None] = []
        self.location = ""


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content_type = self.headers.get("Content-Type")
        self.server.requests.append((self.command, self.path, content_type, body))
        self.server.keys.append(self.headers.get("Authorization"))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        if self.server.location:
            self.send_header("Location", self.server.location)
        if self.server.link:
            self.send_header("Link", self.server.link)
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def refuse(server: Answering, **problem: object) -> str:
    """Return what the command line says of a problem."""
    server.status, server.body = 400, json.dumps(problem).encode()
    with pytest.raises(Refused) as refused:
        Api(server.url).post("jobs", body={})
    return refused.value.message


def test_a_parameter_with_several_values_is_sent_several_times(server: Answering) -> None:
    Api(server.url).get("executions", status=("dead", "a b"), group="acme")
    [(_, path, _, _)] = server.requests
    assert path == "/v1/executions?status=dead&status=a+b&group=acme"


def test_requests_are_what_the_api_takes(server: Answering) -> None:
    api = Api(server.url + "/")
    api.get("jobs", limit=5, prefix="a&b", after=None)
    api.get("jobs", "a/../b?c")
    api.post("jobs", body={"job_id": "a"})
    api.post("jobs", "a", "run")
    api.work("a@1", "heartbeat", body={})
    assert server.requests == [
        ("GET", "/v1/jobs?limit=5&prefix=a%26b", None, b""),
        ("GET", "/v1/jobs/a%2F..%2Fb%3Fc", None, b""),
        ("POST", "/v1/jobs", "application/json", b'{"job_id": "a"}'),
        ("POST", "/v1/jobs/a/run", None, b""),
        ("POST", "/internal/executions/a%401/heartbeat", "application/json", b"{}"),
    ]


def test_an_empty_answer_is_none(server: Answering) -> None:
    server.status, server.body = 204, b""
    assert Api(server.url).delete("jobs", "a") is None


def test_each_fault_of_a_problem_is_a_line_with_its_field(server: Answering) -> None:
    errors = [
        {"pointer": "/target/url", "detail": "use http or https"},
        {"pointer": "/target/headers/a~1b~0c", "detail": "no token"},
        {"parameter": "limit", "detail": "1 to 1000"},
        {"pointer": "", "detail": "an object"},
    ]
    assert refuse(server, code="bad_input", detail="several", errors=errors).splitlines() == [
        "target.url: use http or https",
        "target.headers.a/b~c: no token",
        "limit: 1 to 1000",
        "an object",
    ]


def test_a_problem_without_faults_says_its_detail(server: Answering) -> None:
    said = refuse(server, code="not_found", title="Not Found", detail="there is no job a")
    assert said == "there is no job a"


def test_a_problem_cannot_steer_the_terminal(server: Answering) -> None:
    assert refuse(server, code="error", detail="\x1b[2Jx\ny") == r"\x1b[2Jx\ny"


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"\xff"), (404, b"Not Found"), (500, b"[]"), (502, b'{"a":1}')],
)
def test_a_server_that_is_not_waterclock_is_told_so(
    server: Answering, status: int, body: bytes
) -> None:
    server.status, server.body = status, body
    with pytest.raises(click.ClickException, match="is no Waterclock API"):
        Api(server.url).get("jobs")


def test_no_server_says_what_to_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(click.ClickException, match=r"no API answers at .*`waterclock up`.*--api"):
        Api(f"http://127.0.0.1:{port}").get("jobs")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1", "127.0.0.1:8787", ""])
def test_only_http_urls_are_opened(url: str) -> None:
    with pytest.raises(BadInput, match="http:// or https://"):
        Api(url)


def test_a_proxy_of_the_environment_is_not_asked(
    server: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert Api(server.url).get("jobs") == {}


def test_a_page_comes_with_where_the_next_one_begins(server: Answering) -> None:
    server.body = b"[1]"
    assert Api(server.url).get_page("dead", limit=1, after=None) == ([1], None)
    server.link = '</v1/dead?limit=1&after=5-a%401>; rel="next"'
    assert Api(server.url).get_page("dead", limit=1) == ([1], "5-a@1")
    assert [path for _, path, _, _ in server.requests] == ["/v1/dead?limit=1"] * 2


KEY = f"wck_{'0' * 16}_{'s' * 43}"


def test_a_key_goes_along_with_every_request_and_none_without(server: Answering) -> None:
    Api(server.url, KEY).get("jobs")
    Api(server.url).get("jobs")
    assert server.keys == [f"Bearer {KEY}", None]


def test_a_key_does_not_follow_a_redirect(server: Answering) -> None:
    server.status, server.location = 302, f"{server.url}/elsewhere"
    with pytest.raises(click.ClickException, match="no Waterclock API: HTTP 302"):
        Api(server.url, KEY).get("jobs")
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["", "hunter2", KEY + "\r\nX: y", KEY[:-1]])
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(BadInput, match="WATERCLOCK_API_KEY") as refusal:
        Api("http://127.0.0.1", key)
    assert not key or key not in refusal.value.message


def test_a_missing_key_is_told_in_words_of_the_command_line(server: Answering) -> None:
    said = refuse(server, code="unauthorized", detail="send `Authorization: Bearer wck_…`")
    assert "--api-key-file" in said
    assert "Bearer" not in said
