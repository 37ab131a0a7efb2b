"""How many examples hypothesis draws for tests whose examples take long."""

import os
from typing import Any

from hypothesis import settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def few(by_day: int, **options: Any) -> settings:
    """Draw so many examples in `make test` and ten times as many in `make nightly`; other tests have their profile's.

    Args:
        by_day: the number of `make test`.
        options: of `hypothesis.settings`.
    """
    return settings(max_examples=10 * by_day if NIGHTLY else by_day, **options)
