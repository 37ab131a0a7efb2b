"""Declares the options of `pyrite audit`."""

from __future__ import annotations

from typing import Literal

from pyrite.cluster.config.schema.kinds import Config, Count, Natural


class AuditConfig(Config):
    studies: str | list[str]
    """Folders of studies that ran with sampling.recorded above 0, or of `pyrite mine`."""
    judgements: str | None = None
    """Qrels of the sample, from `pyrite judge --export` or elsewhere. null: draws the sample."""
    order: Literal["sample", "bandit"] = "sample"
    """What is judged: a random sample, which gives rates; or bandit, for relevant documents alone: runs of what each
    method and function showed, hardest first, for `pyrite judge`."""
    collections: str | list[str] | None = None
    """The collection whose negatives are audited, by its name, if the folders have several; null: their only one."""
    functions: str | list[str] | None = None
    """The functions whose negatives are audited, such as [bm25]; null: all. A sample of all is spread over what was
    shown, of which hard negatives are often a small part."""
    budget: Count = 300
    """Negatives of the sample."""
    relevant_from: Count | None = None
    """The lowest grade that counts as relevant. null: that of the studies (encoding.relevant_from)."""
    encoding: str = "utf-8"
    """The encoding of the judgements."""
    strict: bool = True
    """false: skip and count broken lines of the judgements instead of stopping at the first."""
    seed: Natural = 0
    """The seed of the sample."""
    out: str = "outputs/audit"
    """A folder."""
