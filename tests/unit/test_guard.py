"""Which addresses, ports and hosts may be called, by default and under what an operator allows."""

from __future__ import annotations

import pytest

from engine.errors import BadInput
from engine.guard import Guard, addresses_of, is_loopback

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254
168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.31.196.1
192.52.193.1 192.88.99.1 192.168.1.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::127.0.0.1 ::8.8.8.8 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe
100::1 2001:0:a9fe:a9fe::1 2001:1ff::1 2001:db8::1 2002:a9fe:a9fe::1 2620:4f:8000::1 3fff::1 5f00::1
fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
"""
PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
168.63.129.15 168.63.129.17 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255
198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1 2001:4860:4860::8888 2606:4700::1111 2a00::1
3ffe::1
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_an_address_that_is_not_public_is_not_called(address: str) -> None:
    assert Guard().why_not("a.example", 443, address) == "its address is not public"


@pytest.mark.parametrize("address", PUBLIC.split())
def test_a_public_address_is_called(address: str) -> None:
    assert Guard().why_not("a.example", 443, address) is None


@pytest.mark.parametrize("text", ["", "a", "127.1", "0x7f.0.0.1", "010.1.1.1", "1.1.1.1.", "1.1.1"])
def test_what_is_no_address_is_not_called(text: str) -> None:
    assert not Guard().allows_address(text)


@pytest.mark.parametrize("port", [80, 443, 1_024, 8_080, 8_443, 9_200, 65_535])
def test_a_usual_port_is_called(port: int) -> None:
    assert Guard().why_not("a.example", port, "8.8.8.8") is None


@pytest.mark.parametrize("port", [0, 22, 25, 81, 444, 1_023, 2_375, 3_306, 5_432, 6_379, 65_536])
def test_another_port_is_not_called(port: int) -> None:
    assert Guard().why_not("a.example", port, "8.8.8.8") == "its port is not called"


def test_an_allowed_network_is_called_on_usual_ports_and_nothing_around_it_is() -> None:
    guard = Guard.of("10.1.0.0/16, fd00::/8,127.0.0.1")
    assert all(map(guard.allows_address, ("10.1.2.3", "fd00:ec2::254", "127.0.0.1", "8.8.8.8")))
    assert not any(map(guard.allows_address, ("10.2.0.0", "10.0.255.255", "fc00::1", "127.0.0.2")))
    assert not guard.allows_address("::ffff:10.1.2.3")
    assert guard.why_not("a.example", 22, "10.1.2.3") == "its port is not called"


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_allowed"),
    [
        ("hooks.internal", "hooks.internal", 443, True),
        ("hooks.internal", "HOOKS.internal.", 443, True),
        ("Hooks.Internal.", "hooks.internal", 443, True),
        ("hooks.internal", "hooks.internal", 22, False),
        ("hooks.internal", "x.hooks.internal", 443, False),
        ("hooks.internal", "xhooks.internal", 443, False),
        ("*.internal", "a.internal", 443, True),
        ("*.internal", "a.b.internal", 443, True),
        ("*.internal", "internal", 443, False),
        ("*.internal", "a.internal.example", 443, False),
        ("hooks.internal:22", "hooks.internal", 22, True),
        ("hooks.internal:22", "hooks.internal", 443, False),
        ("*.internal:6379", "a.internal", 6_379, True),
        ("127.0.0.1:9000", "127.0.0.1", 9_000, True),
        ("127.0.0.1:9000", "127.0.0.1", 9_001, False),
        ("[::1]:9000", "::1", 9_000, True),
        ("[::1]", "::1", 9_001, True),
        ("*.0.0.1", "127.0.0.1", 9_000, False),
    ],
)
def test_an_entry_allows_its_host_and_port_at_any_address(
    entry: str, host: str, port: int, is_allowed: bool
) -> None:
    assert (Guard.of(hosts=entry).why_not(host, port, "127.0.0.1") is None) is is_allowed


def test_a_port_of_one_host_is_not_anothers() -> None:
    guard = Guard.of(hosts="a.example:22")
    assert guard.why_not("b.example", 22, "8.8.8.8") == "its port is not called"


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "any", "*", "10.0.0.0/8;::1"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="must be a network") as refusal:
        Guard.of(networks=f"127.0.0.1,{text}")
    assert refusal.value.field == "allow_networks"


@pytest.mark.parametrize(
    "text", ["a b", "http://a.example", "a.*", "*", "a:0", "a:65536", "a:", "::1", "bücher.example"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="must be a host") as refusal:
        Guard.of(hosts=f"good.example,{text}")
    assert refusal.value.field == "allow_hosts"


def test_empty_settings_and_spare_commas_allow_nothing() -> None:
    assert Guard.of(None, " , ") == Guard.of("", None) == Guard()


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("LocalHost.", ("127.0.0.1", "::1")),
        ("a.localhost", ("127.0.0.1", "::1")),
        ("metadata.google.internal", ("169.254.169.254",)),
        ("8.8.8.8", ("8.8.8.8",)),
        ("example.com", ()),
        ("localhost.example.com", ()),
    ],
)
def test_some_hosts_tell_their_addresses(host: str, addresses: tuple[str, ...]) -> None:
    assert addresses_of(host) == addresses


def test_this_machine_has_many_names() -> None:
    assert all(map(is_loopback, ("localhost", "127.9.9.9", "::1", "0.0.0.0", "::", "a.localhost")))
    assert not any(map(is_loopback, ("example.com", "10.0.0.1", "8.8.8.8")))
