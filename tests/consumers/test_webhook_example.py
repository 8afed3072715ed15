"""The example in Node that receives webhooks: it takes what we sign, and refuses what
`verify_webhook` refuses. It runs where the machine has node."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import driving
import httpx
import pytest

from engine.webhooks import new_secret, secret_text, sign

BODY = b'{"to":"\xe2\x80\x9cme\xe2\x80\x9d"}'
ID = "report.v2@1799999940000"
OLD, NEW, STRANGER = new_secret(), new_secret(), new_secret()


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    """The URL of the example, which knows two secrets."""
    if not shutil.which("node"):
        pytest.skip("the receiver in Node needs node")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(driving.EXAMPLES / "node/webhook.mjs"), str(port)]
    secrets = {"WEBHOOK_SECRETS": f"{secret_text(NEW)} {secret_text(OLD)}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=secrets) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield f"http://127.0.0.1:{port}/hook"
        finally:
            process.kill()


def send(
    url: str,
    *secrets: bytes,
    late_s: int = 0,
    message_id: str = ID,
    body: bytes = BODY,
    **headers: str,
) -> tuple[int, str]:
    """Return status and text of the answer to a webhook that was signed so long ago."""
    at = int(time.time()) - late_s
    sent = {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(secrets, message_id, at, BODY),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    answer = httpx.post(url, content=body, headers=sent, trust_env=False)
    return answer.status_code, answer.text


@pytest.mark.parametrize("secrets", [(OLD,), (NEW,), (NEW, OLD), (STRANGER, OLD)])
def test_it_takes_what_one_of_its_secrets_has_signed(
    receiver: str, secrets: tuple[bytes, ...]
) -> None:
    assert send(receiver, *secrets) == (204, "")


def test_it_refuses_what_is_not_signed_so_or_not_now(receiver: str) -> None:
    for refused in (
        send(receiver, STRANGER),
        send(receiver, OLD, body=b"{}"),
        send(receiver, OLD, webhook_signature="v1,"),
        send(receiver, OLD, webhook_signature="v2,abc"),
    ):
        assert refused == (400, "refused: webhook-signature")
    for late_s in (400, -400):
        assert send(receiver, OLD, late_s=late_s) == (400, "refused: webhook-timestamp")
    assert send(receiver, OLD, message_id="msg_1") == (400, "refused: webhook-id")
    assert send(receiver, OLD) == (204, "")
