"""Signed webhooks: the published vector, and what the check at the other end takes and refuses."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

import engine
from engine.errors import BadInput, BadSignature
from engine.webhooks import (
    MOST_SIGNATURE_CHARS,
    new_secret,
    parse_secret,
    secret_text,
    sign,
    verify_webhook,
)

NOW = 1_800_000_000_000
NOW_S = NOW // 1000
ID = "report.v2@1799999940000"
BODY = b'{"n":1}'
SECRET = secret_text(bytes(range(32)))
OTHER = secret_text(bytes(32))
WRONG = "v1," + base64.b64encode(bytes(32)).decode()


def signed(
    body: bytes = BODY, *, message_id: str = ID, at: int = NOW_S, secrets: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the headers of a webhook."""
    keys = [parse_secret(text) for text in secrets or (SECRET,)]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(keys, message_id, at, body),
    }


def refusal(headers: dict[str, str], body: bytes = BODY, secrets: tuple[str, ...] = ()) -> str:
    """Return the header for which a webhook is refused."""
    with pytest.raises(BadSignature) as refused:
        verify_webhook(secrets or (SECRET,), headers, body, now=NOW)
    assert refused.value.field is not None
    return refused.value.field


def test_the_published_example_is_signed_as_published() -> None:
    secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message_id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert sign([secret], message_id, 1614265330, b'{"test": 2432232314}') == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_what_is_signed_is_verified_and_its_id_returned() -> None:
    assert verify_webhook(SECRET, signed(), BODY, now=NOW) == ID
    shouted = {name.title(): value for name, value in signed().items()}
    assert verify_webhook([OTHER, SECRET], shouted, BODY, now=NOW) == ID


def test_without_a_time_the_machines_own_counts() -> None:
    headers = signed(at=int(time.time()))
    assert verify_webhook(SECRET, headers, BODY) == ID
    with pytest.raises(BadSignature):
        verify_webhook(SECRET, signed(at=int(time.time()) - 400), BODY)


def test_while_two_secrets_are_valid_either_end_may_know_only_one() -> None:
    both = signed(secrets=(OTHER, SECRET))
    assert both["webhook-signature"].count("v1,") == 2
    assert both["webhook-signature"].startswith(signed(secrets=(OTHER,))["webhook-signature"])
    for secret in (SECRET, OTHER):
        assert verify_webhook(secret, both, BODY, now=NOW) == ID
    assert verify_webhook([SECRET, OTHER], signed(), BODY, now=NOW) == ID


@pytest.mark.parametrize(
    ("change", "header"),
    [
        ({"webhook-id": "report.v2@1799999940001"}, "webhook-signature"),
        ({"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek"}, "webhook-id"),
        ({"webhook-id": ""}, "webhook-id"),
        ({"webhook-timestamp": str(NOW_S - 1)}, "webhook-signature"),
        ({"webhook-timestamp": str(NOW_S - 301)}, "webhook-timestamp"),
        ({"webhook-timestamp": str(NOW_S + 600)}, "webhook-timestamp"),
        ({"webhook-timestamp": f"{NOW_S}.0"}, "webhook-timestamp"),
        ({"webhook-timestamp": f"+{NOW_S}"}, "webhook-timestamp"),
        ({"webhook-timestamp": "١٨٠٠٠٠٠٠٠٠"}, "webhook-timestamp"),
        ({"webhook-timestamp": "9" * 5_000}, "webhook-timestamp"),
        ({"webhook-timestamp": ""}, "webhook-timestamp"),
        ({"webhook-signature": WRONG}, "webhook-signature"),
        ({"webhook-signature": "v1,"}, "webhook-signature"),
        ({"webhook-signature": "v1"}, "webhook-signature"),
        ({"webhook-signature": "v1,é\ud800"}, "webhook-signature"),
        ({"webhook-signature": ""}, "webhook-signature"),
    ],
)
def test_another_id_time_or_signature_is_refused_by_its_header(
    change: dict[str, str], header: str
) -> None:
    assert refusal({**signed(), **change}) == header


def test_a_missing_header_another_body_and_another_secret_are_refused() -> None:
    for missing in signed():
        left = {name: value for name, value in signed().items() if name != missing}
        assert refusal(left) == missing
    assert refusal(signed(), b'{"n":2}') == "webhook-signature"
    assert refusal(signed(), secrets=(OTHER,)) == "webhook-signature"


def test_a_signature_of_another_version_is_none() -> None:
    right = signed()["webhook-signature"]
    assert refusal({**signed(), "webhook-signature": right.replace("v1,", "v2,")}) == (
        "webhook-signature"
    )
    mixed = {**signed(), "webhook-signature": f"v2,xyz v1a,abc {right}"}
    assert verify_webhook(SECRET, mixed, BODY, now=NOW) == ID


def test_five_minutes_either_way_are_the_edge() -> None:
    for at in (NOW_S - 300, NOW_S + 300):
        assert verify_webhook(SECRET, signed(at=at), BODY, now=NOW) == ID
    for now in (NOW + 300_001, NOW - 300_001):
        with pytest.raises(BadSignature, match="too old" if now > NOW else "in the future"):
            verify_webhook(SECRET, signed(), BODY, now=now)
    assert verify_webhook(SECRET, signed(), BODY, now=NOW + 400_000, tolerance_ms=400_000) == ID


def test_a_flood_of_signatures_is_refused_however_right_the_last_one_is() -> None:
    right = signed()["webhook-signature"]
    for flood in (
        " ".join([WRONG] * 1_000 + [right]),
        " ".join(["v1,"] * 16 + [right]),
        right + "=" * MOST_SIGNATURE_CHARS,
    ):
        with pytest.raises(BadSignature, match="more than 16 signatures") as refused:
            verify_webhook(SECRET, {**signed(), "webhook-signature": flood}, BODY, now=NOW)
        assert refused.value.field == "webhook-signature"
    few = {**signed(), "webhook-signature": " ".join([WRONG] * 15 + [right])}
    assert verify_webhook(SECRET, few, BODY, now=NOW) == ID


@pytest.mark.parametrize(
    ("message_id", "body", "pretended", "is_pretended"),
    [
        # What is signed begins with the parts of an id that another reader may take for a time.
        (f"a.{NOW_S}.b@5", b"x", ("a", f"b@5.{NOW_S}.x"), False),
        (f"a@5.{NOW_S}.b@6", b"x", ("a@5", f"b@6.{NOW_S}.x"), True),
        # What is signed ends with a body that another reader may take for a time and a body.
        ("a@5", f"{NOW_S}.x".encode(), (f"a@5.{NOW_S}", "x"), False),
    ],
)
def test_no_message_can_be_read_as_another_one(
    message_id: str, body: bytes, pretended: tuple[str, str], is_pretended: bool
) -> None:
    """Each pair signs the same bytes, and only one of the two is a message of ours."""
    headers = signed(body, message_id=message_id)
    other = {**headers, "webhook-id": pretended[0]}
    content = f"{message_id}.{NOW_S}.".encode() + body
    assert f"{pretended[0]}.{NOW_S}.{pretended[1]}".encode() == content
    ours, theirs = (headers, body), (other, pretended[1].encode())
    taken, refused = (theirs, ours) if is_pretended else (ours, theirs)
    assert verify_webhook(SECRET, *taken, now=NOW) == taken[0]["webhook-id"]
    assert refusal(*refused) == "webhook-id"


def test_a_new_secret_is_random_and_reads_back() -> None:
    made = new_secret()
    assert made != new_secret()
    assert len(made) == 32
    assert parse_secret(secret_text(made)) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw!",
        "whsec_hunter2 hunter2 hunter2 hunter2 hunter2",
        base64.b64encode(bytes(32)).decode(),
        "WHSEC_" + base64.b64encode(bytes(32)).decode(),
        secret_text(bytes(23)),
        secret_text(bytes(65)),
        "whsec_é",
    ],
)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_secret(text)
    assert refused.value.field == "secret"
    assert "hunter2" not in refused.value.message
    if len(text) > len("whsec_"):
        assert text not in refused.value.message
        assert text.removeprefix("whsec_") not in refused.value.message


def test_the_shortest_and_the_longest_secret_are_taken() -> None:
    assert [len(parse_secret(secret_text(bytes(size)))) for size in (24, 64)] == [24, 64]


def test_a_check_without_secrets_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one secret"):
        verify_webhook([], signed(), BODY, now=NOW)


def test_the_package_lends_the_check_without_a_server_or_a_worker() -> None:
    lent: Callable[..., str] = engine.verify_webhook
    assert lent is verify_webhook
    assert engine.BadSignature is BadSignature
    look = (
        "import sys; from engine import verify_webhook;"
        " print({'redis', 'aiohttp', 'pydantic', 'cryptography'} & sys.modules.keys())"
    )
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"
