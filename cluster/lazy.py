"""Names libraries of a cluster that take long to import, as `pyrite.ranking.lazy` does: Ray, and trackers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp as aiohttp
    import cloudpickle as cloudpickle
    import mlflow as mlflow
    import ray as ray
    import ray.job_submission
    import ray.train.torch
    import requests as requests
else:
    from pyrite.ranking.lazy import library as __getattr__
