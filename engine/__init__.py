"""Waterclock's engine: plans, storage, the fire loop and the workers. README is the tour.

For Python workers it lends `Worker`, `Context`, `ThreadContext`, `Fail` and `TryAgain` of
engine/handlers.py, and for who receives webhooks `verify_webhook` of engine/webhooks.py, with what
it raises; each module is read when the first of its names is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.errors import BadSignature
    from engine.handlers import Context, Fail, ThreadContext, TryAgain, Worker
    from engine.webhooks import verify_webhook

__version__ = "0.1.0"
__all__ = [
    "BadSignature",
    "Context",
    "Fail",
    "ThreadContext",
    "TryAgain",
    "Worker",
    "__version__",
    "verify_webhook",
]

_ELSEWHERE = {"BadSignature": "engine.errors", "verify_webhook": "engine.webhooks"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "engine.handlers")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
