"""The test run's one Ray also serves the tests of `rl`."""

from __future__ import annotations

from tests.cluster.conftest import ray_session  # noqa: F401
