"""What an http target may be called at: public addresses and usual ports, and what an operator
allows beyond them. Pure: no name is resolved here.

Who connects asks `why_not` with the address that it is about to connect to; no earlier look at a
name counts, since its next answer may be another one. The API asks it for addresses that stand in a
URL, so that what can never work is refused before it is stored.

`is_global` of Python's `ipaddress` is not the rule: it lets IPv6 forms of private IPv4 addresses
pass (NAT64, IPv4-compatible), and 192.0.0.192, from which a cloud hands out its secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from engine.errors import BadInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a public address, behind which Azure keeps what runs its machines
        "169.254.0.0/16",  # link-local, and the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, and Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
"""After the IANA special-purpose registry; all other IPv4 addresses are public."""

PUBLIC_V6 = IPv6Network("2000::/3")
"""What is not in here is loopback, mapped, NAT64, unique local, link-local, multicast, …."""
NOT_PUBLIC_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

LOW_PORTS = frozenset({80, 443})
"""The usual ones below 1024; from there on all are usual but these:"""
OTHERS_PORTS = frozenset(
    {
        *(1_433, 1_521, 3_306, 5_432, 9_042, 27_017),  # databases
        *(6_379, 6_380, 16_379, 26_379, 11_211),  # Redis, its cluster and Sentinel; memcached
        *(2_181, 2_379, 2_380, 9_300),  # ZooKeeper, etcd, between nodes of Elasticsearch
        *(2_375, 2_376, 2_049, 3_389, 5_900),  # Docker, NFS, remote desktops
        *(5_672, 9_092),  # AMQP, Kafka
    }
)
"""Ports that servers of something else listen on, which have been made to obey what an HTTP request
looks like to them."""

LOOPBACK = ("127.0.0.1", "::1")
_METADATA = ("169.254.169.254",)
KNOWN_NAMES = {
    "localhost": LOOPBACK,
    "localhost.localdomain": LOOPBACK,
    "ip6-localhost": LOOPBACK,
    "ip6-loopback": LOOPBACK,
    "metadata": _METADATA,
    "metadata.google.internal": _METADATA,
    "instance-data": _METADATA,
}
"""Names that are known to lead to no public address, and where."""

_ENTRY = re.compile(
    r"(?P<host>\[[0-9a-fA-F:.]+\]|(?:\*\.)?[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True)
class Guard:
    """Which targets may be called.

    1. Public addresses may be, on ports 80 and 443 and those from 1024 on that are nobody else's.
    2. Addresses of `networks` may be, on the same ports.
    3. Hosts of `hosts` may be, whatever their addresses: with a port in the entry, on that one, and
       otherwise on the same ports.
    """

    networks: tuple[Network, ...] = ()
    hosts: frozenset[tuple[str, int | None]] = frozenset()
    """(name, address or `*.suffix`, in lower case; port, or None for the usual ones)."""

    @classmethod
    def of(cls, networks: str | None = None, hosts: str | None = None) -> Guard:
        """Return the guard of two settings, each a list with commas. Refuses with BadInput what is
        no network (`10.0.0.0/8`), and what is no host (`name`, `*.suffix`, `name:port`)."""
        return cls(
            tuple(_network(text) for text in _items(networks)),
            frozenset(_host(text) for text in _items(hosts)),
        )

    def why_not(self, host: str, port: int, address: str) -> str | None:
        """Return why no connection for `host` is to be made to an address and port; None if it may
        be. The text names neither."""
        if not self.allows_port(host, port):
            return "its port is not called"
        if not self.allows_host(host, port) and not self.allows_address(address):
            return "its address is not public"
        return None

    def allows_host(self, host: str, port: int) -> bool:
        """Return whether a host is allowed by name, whatever its addresses are."""
        return bool(self.hosts) and any(
            (name, allowed) in self.hosts for name in _names(host) for allowed in (port, None)
        )

    def allows_port(self, host: str, port: int) -> bool:
        """Return whether a port is called: a usual one, or one that is allowed with the host."""
        is_usual = port in LOW_PORTS or (1_024 <= port <= 65_535 and port not in OTHERS_PORTS)
        return is_usual or any((name, port) in self.hosts for name in _names(host))

    def allows_address(self, address: str) -> bool:
        """Return whether an address is public, or of an allowed network. What cannot be read as one
        is neither."""
        return _is_public(address) or any(_is_in(address, network) for network in self.networks)


def is_loopback(host: str) -> bool:
    """Return whether a name or an address as it stands in a URL is this machine's own."""
    found = [ip_address(address) for address in addresses_of(host)]
    # What is sent to 0.0.0.0 or :: arrives here, too.
    return any(address.is_loopback or address.is_unspecified for address in found)


def addresses_of(host: str) -> tuple[str, ...]:
    """Return the addresses that a host's text tells without being resolved: none for most names."""
    name = host.lower().removesuffix(".")
    if name.endswith(".localhost"):
        return LOOPBACK
    return KNOWN_NAMES.get(name) or ((host,) if _read(host) else ())


@lru_cache(maxsize=4_096)
def _is_public(text: str) -> bool:
    address = _read(text)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    return (
        address is not None
        and address in PUBLIC_V6
        and not any(address in network for network in NOT_PUBLIC_V6)
    )


def _is_in(text: str, network: Network) -> bool:
    address = _read(text)
    return address is not None and address in network


def _read(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _names(host: str) -> list[str]:
    """Return what an entry may call a host: itself, and each of its suffixes with a star."""
    name = host.lower().removesuffix(".")
    if _read(name):
        return [name]
    labels = name.split(".")
    return [name, *("*." + ".".join(labels[n:]) for n in range(1, len(labels)))]


def _items(setting: str | None) -> list[str]:
    return [item for text in (setting or "").split(",") if (item := text.strip())]


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise BadInput(
            "each item must be a network such as 10.0.0.0/8 or fd00::/8, without bits set beyond"
            " its prefix",
            field="allow_networks",
        ) from None


def _host(text: str) -> tuple[str, int | None]:
    found = _ENTRY.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else None
    if not found or (port is not None and not 1 <= port <= 65_535):
        raise BadInput(
            "each item must be a host such as hooks.internal, *.internal, or with a port"
            " hooks.internal:81; IPv6 addresses stand in brackets, international names as xn--…",
            field="allow_hosts",
        )
    return found["host"].lower().strip("[]").removesuffix("."), port
