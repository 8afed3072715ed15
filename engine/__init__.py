"""Waterclock's engine: plans, storage, the fire loop and the workers. README is the tour.

For Python workers it lends `Worker`, `Context`, `ThreadContext`, `Fail` and `TryAgain` of
engine/handlers.py, which is read when the first of them is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.handlers import Context, Fail, ThreadContext, TryAgain, Worker

__version__ = "0.1.0"
__all__ = ["Context", "Fail", "ThreadContext", "TryAgain", "Worker", "__version__"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("engine.handlers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
