"""Declares the base classes of schemas: mappings of known keys, and parts that are built from a class."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
"""A text that is not empty, as the name of a folder."""
Cores = Annotated[int | float, Field(gt=0)]
"""A fraction of a core is allowed."""
Gigabytes = Annotated[float, Field(gt=0)]
Custom = dict[str, Annotated[float, Field(gt=0)]]
"""Amounts of custom resources of a cluster."""


class Config(BaseModel):
    """A mapping with these keys and no others, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class PartConfig(Config):
    """The class of a part and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str = Field(alias="_target_")
