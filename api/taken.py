"""What all that the API takes has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Taken(BaseModel):
    """A body, a part of one, or a query: unknown fields are refused, and nothing is converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )
