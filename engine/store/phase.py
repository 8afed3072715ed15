"""In what phase of a move to another server a deployment is, if in any. Absent means: it works.

draining    nothing new begins: no firing, no reads, no changes; what workers run may end
frozen      nothing changes any more: it is being read, or has moved
importing   it is being written, from an export
opening     it was written whole and verified, and begins to work
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from engine import codec
from engine.errors import Unusable
from engine.keys import FROZEN


class Phase(StrEnum):
    DRAINING = "draining"
    FROZEN = "frozen"
    IMPORTING = "importing"
    OPENING = "opening"


REFUSALS = {
    Phase.DRAINING: "is being stopped, to move to another server",
    Phase.FROZEN: "was stopped, to move to another server",
    Phase.IMPORTING: "is not there as a whole: an import is at work, or was interrupted",
    Phase.OPENING: "is about to open after an import",
}


async def read_phase(client: Any) -> Phase | None:
    """Return the phase of the deployment on a server; None while it works, or there is none."""
    data = await client.get(FROZEN)
    return Phase(codec.load_json(data)["phase"]) if data else None


async def refuse_frozen(client: Any) -> None:
    """Raise Unusable, saying what to do, if the deployment on a server is stopped."""
    phase = await read_phase(client)
    if phase is None:
        return
    if phase in (Phase.IMPORTING, Phase.OPENING):
        remedy = "wait for its end, or run the import again"
    else:
        remedy = (
            "point this process at that server; or, if the move was given up, run"
            " `waterclock deployment thaw`"
        )
    raise Unusable(f"the deployment on this server {REFUSALS[phase]}: {remedy}")
