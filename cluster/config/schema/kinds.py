"""Defines the kinds of values and of options that the declarations of verbs share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

OF_RAY = ("CPU", "GPU", "memory", "object_store_memory")
"""Resources that every node has; custom ones of these names would replace what is asked for."""


def _not_rays(name: str) -> str:
    if name in OF_RAY:
        raise ValueError(name)
    return name


Count = Annotated[int, Field(ge=1)]
Names = Annotated[list[str | int], Field(min_length=1)]
"""Names of topics, which may be numbers."""
Natural = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
"""A text that is not empty, as the name of a folder."""
Cores = Annotated[int | float, Field(gt=0)]
"""A fraction of a core is allowed."""
Gigabytes = Annotated[float, Field(gt=0)]
Custom = dict[Annotated[str, AfterValidator(_not_rays)], Annotated[float, Field(gt=0)]]
"""Amounts of custom resources of a cluster."""
Measures = Annotated[list[str], Field(min_length=1)]
Split = Literal["train", "dev", "test", "all"]
Order = Literal["score", "rank", "file"]
OrderPrecision = Literal["single", "double"]
Repeated = Literal["max", "mean", "stop"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
CACHE = "${oc.env:PYRITE_CACHE,null}"
DATA = "${oc.env:PYRITE_DATA,data}"


class Config(BaseModel):
    """A mapping with these keys and no others, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)


class PartConfig(Config):
    """The class of a part and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str = Field(alias="_target_")


class CheckpointConfig(Config):
    """Options of a checkpoint, and its class if its files do not say it."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str | None = Field(default=None, alias="_target_")


def part(target: str, **options: Any) -> Any:
    """Return the default of an option that holds a part."""
    return Field(default_factory=lambda: PartConfig(_target_=target, **options))


Parts = Annotated[dict[str, PartConfig], Field(min_length=1)]
"""Parts by their names."""
