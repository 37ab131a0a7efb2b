"""Declares the base classes of schemas: mappings of known keys, and parts that are built from a class."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Cores = Annotated[int | float, Field(gt=0)]
"""May be a share of one."""
Gigabytes = Annotated[float, Field(gt=0)]
Custom = dict[str, Annotated[float, Field(gt=0)]]
"""Amounts of what a cluster calls its own."""


class Shape(BaseModel):
    """A mapping with these keys and no others, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Part(Shape):
    """What an object is built from: a class and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str = Field(alias="_target_")
