"""Runs the body of a trial, and again after an error of its own: what it ends with is a report, never an exception.

Losses of processes and machines pass through: Ray Tune starts the trial anew for them.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from cluster.output.event_log import reason
from cluster.output.storage import Unwritable
from cluster.tune.progress import AGAIN, FAILED, UNWRITABLE
from ranking.errors import BadInput


def attempt(
    body: Callable[[], None], retries: int, report: Callable[[dict[str, Any]], None], own_process: bool = True
) -> None:
    """Run a body until it ends, or has failed for good.

    Args:
        body: goes on from its last state each time.
        retries: after errors that it raises itself. Bad input is as bad the next time, and is not tried again.
        report: to Ray Tune, or whoever runs it.
        own_process: whether the run has its process for itself, which another may take the place of.
    """
    for left in reversed(range(retries + 1)):
        try:
            body()
            return
        except Unwritable as error:
            report({FAILED: str(error), UNWRITABLE: [error.what, str(error.where), error.remedy]})
            return
        except BadInput as error:
            report({FAILED: str(error)})
            return
        except Exception as error:
            if _is_loss(error):
                raise
            told = traceback.format_exc()
            report({(AGAIN if left else FAILED): reason(told), "traceback": told})
            if left and own_process:
                _leave_broken_process()


def _is_loss(error: Exception) -> bool:
    """Whether Ray has lost a process; where it is not even imported it has not."""
    if "ray" not in sys.modules:
        return False
    from cluster.executors.lost_process import is_loss

    return is_loss(error)


def _leave_broken_process() -> None:
    """An error of CUDA stays with its process: Tune starts another one, as after a loss."""
    import torch

    if torch.cuda.is_initialized():
        os._exit(1)
