"""The rule of a target's URL: what can be called, and may be.

Two programs that read one URL differently are how a check is passed: so what is taken is plain. A
host is a name of ASCII letters (of another one the A-label is stored), or an address in its one
usual form. No text repeats a URL: it may hold a secret.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated
from unicodedata import normalize
from urllib.parse import SplitResult, urlsplit

import idna
from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from api.door import USUAL_PORTS, Door
from api.rules import shown
from engine.errors import (
    BadInput,
    CallsItself,
    PortNotAllowed,
    SchemeNotAllowed,
    TargetNotPublic,
    UserinfoNotAllowed,
)
from engine.guard import addresses_of

MAX_URL_CHARS = 2_048
MAX_HOST_CHARS = 253

_NOT_IN_URL = re.compile(r"[\s\x00-\x20\x7f-\x9f]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS = re.compile("[\u3002\uff0e\uff61]")
"""What IDNA takes for a dot (RFC 3490, 3.1)."""

_ALLOW = "; the operator can allow it in WATERCLOCK_ALLOW_NETWORKS or WATERCLOCK_ALLOW_HOSTS"


def _refuse(detail: str, error: type[BadInput] = BadInput) -> PydanticCustomError:
    return PydanticCustomError(error.code, "{detail}", {"detail": detail})


def _check_url(url: str, info: ValidationInfo) -> str:
    context = info.context or {}
    if url == context.get("kept_url"):
        return url
    parts = _split(url)
    host, port = _check_host(parts), _port_of(parts)
    _check_place(host, port, context.get("door") or Door())
    if "#" in url:
        raise _refuse("a target's URL has no fragment (#…): it is never sent")
    if parts.netloc.isascii():
        return url
    return url.replace(parts.netloc, host if parts.port is None else f"{host}:{port}", 1)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL that is sound from outside."""
    if len(url) > MAX_URL_CHARS:
        raise _refuse(f"a URL has {MAX_URL_CHARS} characters at the most")
    # Before it is split: urlsplit drops tabs and line ends, and getaddrinfo stops at a NUL.
    if _NOT_IN_URL.search(url):
        raise _refuse("a URL has no spaces or control characters; percent-encode them")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _refuse("the host of this URL cannot be read") from None
    if parts.scheme not in USUAL_PORTS:
        raise _refuse("a target's URL begins with http:// or https://", SchemeNotAllowed)
    if "@" in parts.netloc:
        raise _refuse(
            "a URL with a user or password is not taken; send an Authorization header",
            UserinfoNotAllowed,
        )
    if "\\" in url:
        raise _refuse("a URL has no backslashes; percent-encode them")
    return parts


def _port_of(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        raise _refuse("a port is a number from 1 to 65535", PortNotAllowed) from None
    if parts.netloc.endswith(":"):
        raise _refuse("behind the colon of a host stands its port", PortNotAllowed)
    return USUAL_PORTS[parts.scheme] if port is None else port


def _check_host(parts: SplitResult) -> str:
    """Return a host as it is called: in ASCII, and an address in its usual form."""
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        return _check_ipv6(host)
    # The forms in which resolvers have been seen to find an address, whatever a URL says of them.
    folded = _DOTS.sub(".", normalize("NFKC", host)).lower()
    name = folded.removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _check_ipv4(host)
    if not host.isascii():
        if addresses_of(folded):
            raise _refuse("this name is not that of a public host", TargetNotPublic)
        name = _to_ascii(host)
    labels = name.split(".")
    if len(name) > MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refuse("this URL has no host, or one that cannot exist")
    for label in labels:
        if label.startswith("xn--"):
            _to_ascii(label)
    return name


def _check_ipv4(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        raise _refuse(
            "an IPv4 address is four decimal numbers from 0 to 255 with dots between, and no name"
            " ends in a number",
            TargetNotPublic,
        ) from None


def _check_ipv6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except AddressValueError:
        raise _refuse("this is no IPv6 address", TargetNotPublic) from None
    if address.scope_id is not None:
        raise _refuse("an address with a zone (%…) is nobody's but this machine's", TargetNotPublic)
    return str(address)


def _to_ascii(host: str) -> str:
    try:
        return idna.encode(host.lower().removesuffix(".")).decode()
    except idna.IDNAError:
        raise _refuse(
            "the host is no internationalised name as IDNA 2008 has them; write its xn-- form"
        ) from None


def _check_place(host: str, port: int, door: Door) -> None:
    """Refuse a host and port that can be seen not to be callable."""
    if door.is_own(host, port):
        raise _refuse(
            "this is Waterclock's own API; to let jobs call it, name its host and port in"
            " WATERCLOCK_ALLOW_HOSTS",
            CallsItself,
        )
    addresses = addresses_of(host)
    is_public = not addresses or any(map(door.guard.allows_address, addresses))
    if not is_public and not door.guard.allows_host(host, port):
        raise _refuse("this is not the address of a public host" + _ALLOW, TargetNotPublic)
    if not door.guard.allows_port(host, port):
        raise _refuse(
            "ports 80 and 443 are called, and those from 1024 on that are not another service's;"
            " the operator can allow a host with its port in WATERCLOCK_ALLOW_HOSTS",
            PortNotAllowed,
        )


Url = Annotated[
    str,
    AfterValidator(_check_url),
    shown(
        "string",
        "Where the target is called: http or https, a public host, no user, no fragment.",
        format="uri",
        maxLength=MAX_URL_CHARS,
        examples=["https://api.example.com/hooks/report"],
    ),
]
"""Its validation context may hold `door`, a Door, and `kept_url`, which is taken as it is."""
