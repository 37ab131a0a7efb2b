"""Names libraries of a cluster that take long to import, as `pyrite.ranking.lazy` does: Ray, Hydra, and trackers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp as aiohttp
    import cloudpickle as cloudpickle
    import hydra as hydra
    import hydra._internal.config_loader_impl
    import hydra.core.override_parser.overrides_parser
    import hydra.errors
    import mlflow as mlflow
    import omegaconf as omegaconf
    import omegaconf.errors
    import ray as ray
    import ray.job_submission
    import ray.train.torch
    import requests as requests
else:
    from pyrite.ranking.lazy import library as __getattr__
