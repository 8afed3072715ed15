"""The gate of the API: whose request it is, by the key that came with it.

Where nobody but this machine reaches the API, no key is asked for, and what must be kept out is a
page of somebody else's in a browser of this machine: by the name that it calls us, or by what the
browser says of where it comes from.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from api.limits import Limits
from engine import codec
from engine.access import Caller, asks_for_keys, is_own_address
from engine.config import Config
from engine.errors import CrossSite, Unauthorized, Unusable
from engine.store import Store
from engine.store.api_keys import Keyring, note_uses, read_keyring

LOOK_S = 1.0
"""How old our view of the keys may be: so soon a revoked key, or a new one, counts."""
USED_MS = 60_000
"""Uses of a key are noted so far apart."""
_SAFE = ("GET", "HEAD", "OPTIONS")

_NO_KEY = (
    "this needs a key that is good: send `Authorization: Bearer wck_…`; `waterclock keys create`"
    " makes one"
)
_IN_URL = (
    "a key in a URL is refused, since logs and histories keep URLs: send `Authorization: Bearer"
    " wck_…`, and revoke this one"
)


class Gate:
    """Tells callers apart, for one process.

    1. Knows the keys as they were a second ago at the most.
    2. Notes when keys are used; `write_uses` stores that, off the way of requests.
    3. Where no key is asked for, keeps pages of other sites out.
    """

    def __init__(self, config: Config) -> None:
        """Raises Unusable for settings that would let anyone in."""
        self.asks_for_keys = asks_for_keys(config.auth, config.host)
        self.limits = Limits()
        public = urlsplit(config.public_url or "").hostname
        self._names = {"localhost", config.host.lower(), public}
        self._host = config.host
        self._ring: Keyring | None = None
        self._looked_at = float("-inf")
        self._look = asyncio.Lock()
        self._used: dict[str, int] = {}
        self._unwritten: dict[str, int] = {}

    async def check_start(self, store: Store) -> None:
        """Raise Unusable if keys are asked for, and there is none that anybody could send."""
        if self.asks_for_keys and not (await self._keyring(store)).keys:
            raise Unusable(
                f"the API asks for keys on {self._host}, and there is none yet: make the first one"
                " with `waterclock keys create --scope admin`, with the same --redis-url or"
                " --data-dir"
            )

    async def caller(self, store: Store, headers: Headers, now: int) -> Caller:
        """Return who sends a request with these headers. Refuses with Unauthorized, always in the
        same words and time, who has no key that is good."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        text = text.strip() if scheme.lower() == "bearer" else ""
        key = (await self._keyring(store)).keys.get(codec.id_of_api_key(text) or "")
        if not codec.proves(text, key) or key is None or not key.is_good(now):
            raise Unauthorized(_NO_KEY)
        if now - self._used.get(key.id, 0) >= USED_MS:
            self._used[key.id] = self._unwritten[key.id] = now
        return key.caller()

    def forget(self) -> None:
        """Look at the keys anew with the next request: they were changed here."""
        self._looked_at = float("-inf")

    async def write_uses(self, store: Store) -> None:
        """Store when keys were last used."""
        uses, self._unwritten = self._unwritten, {}
        try:
            await note_uses(store, uses)
        except BaseException:
            self._unwritten = uses | self._unwritten
            raise

    def refuse_strangers(self, request: Request) -> None:
        """Refuse with CrossSite what a page of another site sends: it would find us by a name of
        its own (DNS rebinding), or change something without being able to read the answer."""
        headers = request.headers
        host = headers.get("host", "").lower()
        if not self._is_ours(host):
            raise CrossSite(
                "this API answers to localhost, its own address and the host of"
                " WATERCLOCK_PUBLIC_URL; the request is for another name"
            )
        if request.method in _SAFE:
            return
        origin = headers.get("origin")
        is_strange = origin is not None and urlsplit(origin).netloc.lower() != host
        if is_strange or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise CrossSite("a page of another site may not change anything here")

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or is_own_address(name)

    async def _keyring(self, store: Store) -> Keyring:
        if self._ring is None or time.monotonic() - self._looked_at >= LOOK_S:
            async with self._look:
                if self._ring is None or time.monotonic() - self._looked_at >= LOOK_S:
                    began, known = time.monotonic(), self._ring
                    self._ring = await read_keyring(store, known)
                    self._looked_at = began
                    if self._ring is not known:
                        self._clear_up(self._ring)
        return self._ring

    def _clear_up(self, ring: Keyring) -> None:
        self._used = {key_id: at for key_id, at in self._used.items() if key_id in ring.keys}
        self.limits.forget_all_but({key.caller().name for key in ring.keys.values()})


def refuse_key_in_url(request: Request) -> None:
    """Refuse with Unauthorized a key among the query parameters."""
    query = request.scope["query_string"]
    if query and "wck_" in unquote(query.decode("latin-1")):
        raise Unauthorized(_IN_URL)
