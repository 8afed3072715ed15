"""Waterclock's engine: plans, storage, the fire loop and the workers. README is the tour."""

__version__ = "0.1.0"
