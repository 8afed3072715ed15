"""What times depend on beside their plan, as it stands: the calendars, read whole and again only
when their stamp has moved, and the starts of the deployment."""

from __future__ import annotations

from collections.abc import Collection

from engine import codec
from engine.keys import CALENDARS
from engine.plan import Calendars, Plan
from engine.store import Store
from engine.store.leases import read_starts

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


async def read_for(store: Store, plans: Collection[Plan]) -> None:
    """Read what the times of these plans depend on, if any does on anything."""
    if any(plan.calendars for plan in plans):
        await read_calendars(store)
    if any(plan.kind == "reboot" for plan in plans):
        await read_starts(store)
