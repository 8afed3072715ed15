"""The one place where a Redis client is made, so that every connection has the same rules.

Measured on redis-py 8.1: by default it sends a command up to ten times more when a connection
breaks or an answer is late, and says nothing; one XADD became two entries. So the driver never
sends anything again. Our own loops do, and only compare-and-set scripts. A read that blocks has
connections of its own, whose socket timeout is the block time plus a margin: shorter would cut the
read off, and none would hang for ever on a half-open connection.

The driver's asyncio connections write commands in Python, which costs a worker a fifth of its time;
its other connections have hiredis do it, and so have ours.
"""

from __future__ import annotations

from typing import Any

import redis.exceptions as driver
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer

from engine.errors import Unusable

SOCKET_TIMEOUT_S = 5.0
BLOCK_MARGIN_S = 5.0

TRANSIENT: tuple[type[Exception], ...] = (
    driver.ConnectionError,
    driver.TimeoutError,
    driver.BusyLoadingError,
    driver.ReadOnlyError,
    driver.TryAgainError,
    driver.ClusterDownError,
    driver.MasterDownError,
    driver.OutOfMemoryError,
    ConnectionError,
    TimeoutError,
)
"""What passes by itself: a server that restarts, fails over, moves a slot or is full. Try again;
nothing was half done."""


def connect(url: str, *, block_ms: int = 0, max_connections: int = 64) -> Redis:
    """Return a client for `url`. With `block_ms` it is for reads that block so long, and for
    nothing else.

    Raises Unusable for a URL that is not redis://, rediss:// or unix://. Connects at the first
    command.
    """
    timeout_s = block_ms / 1000 + BLOCK_MARGIN_S if block_ms else SOCKET_TIMEOUT_S
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=max_connections,
            timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            retry_on_timeout=False,
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            health_check_interval=0,
            decode_responses=False,
        )
    except ValueError:
        # The URL may hold a password: it is not repeated.
        raise Unusable(
            "the server's URL must begin with redis://, rediss:// or unix://"
            " (WATERCLOCK_REDIS_URL or --redis-url)"
        ) from None
    pool.connection_class = _packing_fast(pool.connection_class)
    return Redis.from_pool(pool)


def _packing_fast(kind: type[Any]) -> type[Any]:
    """Return a kind of connection that differs in nothing but how it writes commands."""
    serializer = HiredisRespSerializer()

    class PackingFast(kind):  # type: ignore[misc]
        def pack_command(self, *args: Any) -> list[bytes]:
            packed: list[bytes] = serializer.pack(*args)
            return packed

    return PackingFast
