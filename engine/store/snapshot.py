"""The calendars as they stand: read whole, and again only when their stamp has moved."""

from __future__ import annotations

from engine import codec
from engine.keys import CALENDARS
from engine.plan import Calendars
from engine.store import Store

_STAMP = b"@stamp"


async def read_calendars(store: Store) -> Calendars:
    """Return all calendars, and keep them as `store.calendars`. One small read while nothing has
    changed."""
    stamp = int(await store.client.hget(CALENDARS, _STAMP) or 0)
    if stamp != store.calendars.stamp:
        fields = await store.client.hgetall(CALENDARS)
        stamp = int(fields.pop(_STAMP, 0))
        found = (codec.load_calendar(name.decode(), data) for name, data in fields.items())
        store.calendars = Calendars(stamp, {calendar.name: calendar for calendar in found})
    return store.calendars
