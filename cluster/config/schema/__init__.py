"""Declares each option of a command once: its name, type, default and explanation.

There is a file per verb; what verbs share is in `run`, `command` and `kinds`. `SHAPES` has the class of each primary
file of `conf/`, which chooses the parts. The options of a part are declared by its class, and `build` checks them
against it.
"""

from __future__ import annotations

from pyrite.cluster.config.schema.audit import AuditConfig
from pyrite.cluster.config.schema.evaluate import EvaluateConfig
from pyrite.cluster.config.schema.judge import JudgeConfig
from pyrite.cluster.config.schema.kinds import Config
from pyrite.cluster.config.schema.learn import LearningConfig
from pyrite.cluster.config.schema.mine import MineConfig
from pyrite.cluster.config.schema.pool import PoolingConfig
from pyrite.cluster.config.schema.rank import RankConfig
from pyrite.cluster.config.schema.run import RunConfig
from pyrite.cluster.config.schema.study import StudyConfig

SHAPES: dict[str, type[Config]] = {
    "config": RunConfig,
    "learn": LearningConfig,
    "study": StudyConfig,
    "pool": PoolingConfig,
    "judge": JudgeConfig,
    "mine": MineConfig,
    "rank": RankConfig,
    "audit": AuditConfig,
    "evaluate": EvaluateConfig,
}
"""The declared options of each primary file."""
