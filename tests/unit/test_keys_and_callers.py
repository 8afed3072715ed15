"""Keys, scopes, groups and quotas by themselves, and which addresses ask for keys."""

from __future__ import annotations

import pytest

from engine import codec
from engine.access import (
    API_KEY,
    ApiKey,
    Caller,
    Quotas,
    Scope,
    asks_for_keys,
    check_grant,
    is_own_address,
)
from engine.errors import BadInput, Unusable

KEY = ApiKey(
    id="0123456789abcdef",
    name="billing",
    digest="d" * 64,
    scopes=frozenset({Scope.WRITE}),
    created_at=1,
    groups=frozenset({"a", "b"}),
    expires_at=100,
    rotated_from="f" * 16,
    family="e" * 16,
    quotas=Quotas(rate=2.5, burst=None, max_jobs=3),
)


@pytest.mark.parametrize(
    ("held", "lets"),
    [
        (Scope.READ, {Scope.READ}),
        (Scope.WRITE, {Scope.READ, Scope.WRITE}),
        (Scope.WORKER, {Scope.WORKER}),
        (Scope.ADMIN, {*Scope}),
    ],
)
def test_a_scope_implies_the_lesser_ones(held: Scope, lets: set[Scope]) -> None:
    caller = Caller("x", frozenset({held}))
    assert {scope for scope in Scope if caller.may(scope)} == lets


def test_a_restricted_caller_sees_its_groups_and_not_jobs_of_none() -> None:
    caller = KEY.caller()
    assert [caller.sees(group) for group in ("a", "b", "c", None)] == [True, True, False, False]
    assert Caller("x", frozenset()).sees(None)


def test_a_key_is_good_until_it_expires() -> None:
    assert (KEY.is_good(99), KEY.is_good(100)) == (True, False)


def test_a_key_comes_back_from_its_record_and_shows_no_digest() -> None:
    assert codec.load_api_key(KEY.id, codec.dump_api_key(KEY)) == KEY
    assert KEY.digest not in repr(KEY)


def test_a_new_key_is_proved_by_itself_alone() -> None:
    key_id, text = codec.mint_api_key()
    _, other = codec.mint_api_key()
    stored = ApiKey(key_id, "x", codec.digest_of(text), frozenset({Scope.READ}), 1)
    assert API_KEY.fullmatch(text)
    assert codec.id_of_api_key(text) == key_id
    assert codec.proves(text, stored)
    for wrong in (other, text[:-1], text + "A", text.upper(), "", "é"):
        assert not codec.proves(wrong, stored)
    assert not codec.proves(text, None)
    assert codec.id_of_api_key("wck_") is None


def test_nobody_proves_a_key_that_is_not_there() -> None:
    """Not even who finds a text of the digest that is compared with then."""
    assert not codec.proves("anything", None)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("192.168.1.2", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_only_loopback_is_reached_by_this_machine_alone(host: str, is_own: bool) -> None:
    assert is_own_address(host) is is_own
    assert asks_for_keys("auto", host) is not is_own
    assert asks_for_keys("required", host)
    if is_own:
        assert not asks_for_keys("off", host)
    else:
        with pytest.raises(Unusable, match="--host"):
            asks_for_keys("off", host)


@pytest.mark.parametrize(
    ("name", "scopes", "groups", "quotas", "field"),
    [
        ("", "read", None, Quotas(), "name"),
        ("x" * 101, "read", None, Quotas(), "name"),
        ("a\nb", "read", None, Quotas(), "name"),
        ("x", "", None, Quotas(), "scopes"),
        ("x", "admin", ["a"], Quotas(), "groups"),
        ("x", "read worker", ["a"], Quotas(), "groups"),
        ("x", "read", [], Quotas(), "groups"),
        ("x", "read", ["a b"], Quotas(), "groups"),
        ("x", "read", [f"g{n}" for n in range(101)], Quotas(), "groups"),
        ("x", "read", None, Quotas(max_jobs=1), "max_jobs"),
        ("x", "read", None, Quotas(max_payload_bytes=1), "max_payload_bytes"),
        ("x", "read", None, Quotas(burst=1), "burst"),
        ("x", "read", None, Quotas(rate=0), "rate"),
        ("x", "read", None, Quotas(rate=float("nan")), "rate"),
        ("x", "read", ["a"], Quotas(max_jobs=-1), "max_jobs"),
    ],
)
def test_a_grant_that_cannot_be_is_refused_by_its_field(
    name: str, scopes: str, groups: list[str] | None, quotas: Quotas, field: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        check_grant(name, map(Scope, scopes.split()), groups, quotas)
    assert refusal.value.field == field


def test_a_grant_that_can_be_is_taken() -> None:
    check_grant("x", [Scope.READ, Scope.WRITE], ["a"], Quotas(1, 5, 0, 0))
    check_grant("x", [Scope.ADMIN], None, Quotas(0.01))


@pytest.mark.parametrize(
    ("quotas", "most"),
    [(Quotas(rate=10), 10), (Quotas(rate=0.2), 1), (Quotas(rate=2.9), 2), (Quotas(10, 3), 3)],
)
def test_a_burst_is_a_seconds_requests_unless_it_is_said(quotas: Quotas, most: int) -> None:
    assert quotas.most_at_once == most
